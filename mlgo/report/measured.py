"""One table of everything measured: each policy and reference advisor beside the heuristic, module by module."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core import measures
from mlgo.core.artifacts import score_type
from mlgo.core.errors import ArtifactError
from mlgo.core.names import PolicyName
from mlgo.rollout.references import HEURISTIC, REFERENCES

MEASURES = measures.names()
"""Scores that may be compared: sizes, and what register allocation cost where that is the task."""

MEASURE_TITLES = {name: one.words.title for name, one in measures.MEASURES.items()}
"""How a page names each measure."""

_NUMBERS = {name: score_type(measures.get_measure(name)) for name in MEASURES}

MEASURED = pa.schema(
    [
        pa.field("contender", pa.string()),
        pa.field("is_policy", pa.bool_()),
        pa.field("project", pa.string()),
        pa.field("module", pa.string()),
        pa.field("language", pa.string()),
        pa.field("split", pa.string()),
        pa.field("shares_functions", pa.bool_()),
        *(pa.field(name, kind) for name, kind in _NUMBERS.items()),
        *(pa.field(f"baseline_{name}", kind) for name, kind in _NUMBERS.items()),
        pa.field("num_questions", pa.int64()),
        pa.field("num_inlined", pa.int64()),
        pa.field("truncated", pa.bool_()),
        pa.field("failure", pa.string()),
        pa.field("message", pa.string()),
    ]
)
"""One row per contender and module. ``contender`` is ``<policy>-s<seed>`` or an advisor; ``shares_functions`` tells
whether a function body of the module also occurs in another split. Null where unknown."""


def measured_table(results: pa.Table, scores: pa.Table, modules: pa.Table) -> pa.Table:
    """Bring policies and references together; references on the modules that some policy was evaluated on.

    Args:
        results: ``artifacts.RESULTS``.
        scores: ``artifacts.SCORES``.
        modules: ``artifacts.MODULES``.

    Returns:
        `MEASURED`, policies first, in the order of the results.

    Raises:
        ArtifactError: no results, none of the test split, or modules the corpus does not hold.
    """
    rows = results.to_pylist()
    if not any(row["split"] == "test" for row in rows):
        raise ArtifactError(
            f"the evaluation holds no test module ({len(rows)} rows); add test to evaluate.splits and evaluate again"
        )
    manifest = {_key(row): row for row in modules.select(["project", "module", "shared_functions"]).to_pylist()}
    missing = next((key for row in rows if (key := _key(row)) not in manifest), None)
    if missing is not None:
        raise ArtifactError(f"{'/'.join(missing)} was evaluated but is not in the corpus; evaluate again")
    measured = [*map(_policy_row, rows), *_reference_rows(rows, scores)]
    for row in measured:
        row["shares_functions"] = manifest[_key(row)]["shared_functions"] > 0
    return pa.Table.from_pylist(measured, MEASURED)


def contenders(measured: pa.Table, policies: bool) -> list[str]:
    """Names of the policies, or of the references, in the order of the table."""
    return pc.unique(measured.filter(pc.field("is_policy") == policies)["contender"]).to_pylist()


def measures_in(measured: pa.Table) -> list[str]:
    """Those of `MEASURES` that the table knows of any module."""
    return [name for name in MEASURES if measured[name].null_count < measured.num_rows]


def sizes(measured: pa.Table, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores under the contender and the heuristic, as they are compared: with the offset of their measure.

    Returns:
        float64 [num_rows] each, NaN where a compile failed.
    """
    offset = measures.get_measure(measure).offset
    return _floats(measured[measure]) + offset, _floats(measured[f"baseline_{measure}"]) + offset


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    return column.cast(pa.float64()).fill_null(float("nan")).to_numpy()


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["project"], row["module"]


def _policy_row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "contender": str(PolicyName(row["policy"], row["seed"])), "is_policy": True}


def _reference_rows(results: list[dict[str, Any]], scores: pa.Table) -> list[dict[str, Any]]:
    """Rows of the references for the evaluated modules."""
    evaluated = {_key(row): {name: row[name] for name in ("language", "split")} for row in results}
    by_advisor: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in scores.to_pylist():
        by_advisor.setdefault(row["advisor"], {})[_key(row)] = row
    plain = by_advisor.get(HEURISTIC, {})
    return [
        {
            **row,
            **evaluated[key],
            "contender": advisor,
            "is_policy": False,
            **{f"baseline_{name}": plain[key][name] if key in plain else None for name in MEASURES},
        }
        for advisor in dict.fromkeys(name for task in REFERENCES.values() for name in task.advisors)
        for key, row in by_advisor.get(advisor, {}).items()
        if key in evaluated
    ]
