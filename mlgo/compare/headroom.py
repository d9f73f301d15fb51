"""How much smaller modules are known to be possible, and which share of that each policy captured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import HEADROOM, RESULTS, read_table
from mlgo.compare.evaluation import policy_rows
from mlgo.compare.inference import DEFAULT
from mlgo.compare.measured import ALL, Contender, Place, Row, compare_all, gather
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import HEURISTIC

BEST = "best known"
"""The smallest size of each module: under the heuristic, any variant of the search, or any evaluated policy."""


def read_headroom(headroom_path: Path, results_path: Path, measure: str) -> list[Row]:
    """Read what the search has found and, where there are any, the policies' results; see `headroom_rows`.

    Raises:
        ArtifactError: the search has not been run, or a file is damaged.
    """
    if not headroom_path.exists():
        raise ArtifactError(f"{headroom_path} is missing; make it with: make headroom")
    results = read_table(results_path, RESULTS) if results_path.exists() else RESULTS.empty_table()
    return headroom_rows(read_table(headroom_path, HEADROOM), results, measure)


def headroom_rows(headroom: pa.Table, results: pa.Table, measure: str) -> list[Row]:
    """Compare all variants and policies with the heuristic and the best known, on the modules of the search.

    Args:
        headroom: ``artifacts.HEADROOM``.
        results: ``artifacts.RESULTS``; other modules' rows do not count.
        measure: size that is compared.

    Returns:
        By scope (all, languages, projects), then variants, policies and `BEST`.

    Raises:
        ArtifactError: the search holds no module, or nothing of this measure.
    """
    if measure not in HEADROOM.names:
        raise ArtifactError(f"the search for smaller code knows nothing of {measure}; name a size of objects")
    variants = headroom.to_pylist()
    plain = {(row["project"], row["module"]): row[measure] for row in variants if row["variant"] == HEURISTIC}
    if not plain:
        raise ArtifactError("the headroom table holds no module; raise headroom.max_questions and run: make headroom")
    rows = [
        *({**row, "contender": Contender(row["variant"])} for row in variants),
        *(row for row in policy_rows(results.to_pylist()) if (row["project"], row["module"]) in plain),
    ]
    for row in rows:
        row[f"baseline_{measure}"] = plain[row["project"], row["module"]]
    measured = gather(rows, ("project", "module"), {measure: 0.0}, ("project", "module", "language"))
    scores = measured.scores[measure]
    best = np.fmin.reduce(scores, axis=0)
    measured = measured.beside(BEST, {measure: best})
    measured = replace(measured, asked=np.ones_like(measured.asked), best={measure: best})
    scopes = [(ALL, measured.where())]
    for column in ("language", "project"):
        scopes += [(name, measured.where(**{column: name})) for name in sorted(set(measured.items[column]))]
    places = [Place(ALL, scope, items) for scope, items in scopes]
    found = compare_all(measured, places, DEFAULT, family=lambda row: row.scope)
    return [row for row in found if row.name != HEURISTIC and row.by(measure).baseline_sum]
