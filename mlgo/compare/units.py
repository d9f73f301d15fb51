"""Choices among candidates, unit by unit: beside the built-in heuristic, beside none at all, beside the best known."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import CSE_COMPILES, CSE_LABELS, CSE_RESULTS, Row, provenance_in, read_provenance, read_table
from mlgo.base.files import file_sha256
from mlgo.compare.inference import Bootstrap, Comparison
from mlgo.compare.modules import ratios, with_contenders
from mlgo.compare.scores import ComparisonRow, ScoreMatrix, compare, score_matrix, whole
from mlgo.errors import ArtifactError
from mlgo.jit.baseline import eligible_units

HEURISTIC, NONE, BEST = "heuristic", "none", "best known"
"""Contenders that are no policies: the built-in heuristic, no elimination, and the label of each unit."""

OK = "OK"
"""Kind of a compile that did not fail."""

NO_LABEL = "no_label"
"""Kind of a unit for which no label was found."""


_COLUMNS = ("unit", "contender", "score", "code_bytes", "failure", "num_performed")
_BASELINES = {"score": HEURISTIC, "none": NONE, "size": HEURISTIC}  # what each figure is held against


def read_units(task: str, baseline: Path, labels: Path, evaluations: Sequence[Path]) -> ScoreMatrix:
    """Read what the stages left.

    Returns:
        By ``score`` and code ``size`` beside the heuristic's, and by the score beside that without elimination,
        ``none``. Attributes of a unit are its split, ``num_viable`` candidates, and whether its label is known
        (``labelled``) and the best of all subsets (``exhaustive``). Details are the ``kind`` of a compile and its
        ``eliminations``.
    """
    units, path = eligible_units(baseline), baseline / "compiles.parquet"
    compiles, known = read_table(path, CSE_COMPILES), file_sha256(path)
    origin = provenance_in(path, compiles.schema)
    if origin.get("task") != task:
        raise ArtifactError(f"{baseline} was made for task {origin.get('task')}, not {task}; enumerate again")
    for path in (labels, *evaluations):
        if read_provenance(path).get("baseline_sha256") != known:
            raise ArtifactError(f"{path} was made with another baseline than {baseline}; run its stage again")
    names = pa.array([unit.name for unit in units])
    best = _aligned(_of_units(read_table(labels, CSE_LABELS), names, labels), names, BEST)
    tables = [_aligned(compiles.filter(pc.field("way") == way), names, way) for way in (HEURISTIC, NONE)]
    tables.append(best)
    for path in evaluations:
        results = _of_units(read_table(path, CSE_RESULTS), names, path)
        if not len(results):
            raise ArtifactError(f"{path} holds no unit; evaluate again")
        tables.append(with_contenders(results))
    measured = _measured(pa.concat_tables([table.select(_COLUMNS) for table in tables], promote_options="default"))
    least = measured.scores["score"][measured.index(BEST)]
    items = {
        "split": np.array([unit.split for unit in units], object),
        "num_viable": np.array([unit.num_viable for unit in units]),
        "labelled": np.isfinite(least),
        "exhaustive": pc.fill_null(best["exhaustive"], False).to_numpy(),
    }
    measured = replace(measured, items=items, best={"score": least})
    _check_complete(measured)
    return measured


def _aligned(table: pa.Table, names: pa.Array, contender: str) -> pa.Table:
    """Rows of these units, in their order, as those of a contender; nulls where there is none."""
    rows = table.take(pc.index_in(names, table["unit"].combine_chunks())).drop_columns("unit")
    return rows.append_column("unit", names).append_column("contender", pa.repeat(contender, len(names)))


def _of_units(table: pa.Table, names: pa.Array, path: Path) -> pa.Table:
    """A table, all of whose rows must be about known units."""
    unknown = table["unit"].filter(pc.invert(pc.is_in(table["unit"], names)))
    if len(unknown):
        raise ArtifactError(f"{path} holds unit {unknown[0]}, which the baseline does not judge; run its stage again")
    return table


def _measured(rows: pa.Table) -> ScoreMatrix:
    """Scores of all contenders, without what is known of the units."""
    counted = rows.group_by(["contender", "unit"], use_threads=False).aggregate([([], "count_all")])
    for twice in counted.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist():
        message = f"{twice['contender']} has unit {twice['unit']} twice"
        raise ArtifactError(f"{message}; name each table once, or run its stage again")
    failure = pc.fill_null(rows["failure"], NO_LABEL)
    columns = {
        "unit": rows["unit"],
        "contender": rows["contender"],
        "score": _positive(rows["score"]),
        "none": _positive(rows["score"]),
        "size": _positive(rows["code_bytes"]),
        "kind": pc.if_else(pc.equal(failure, ""), OK, failure),
        "eliminations": rows["num_performed"],
    }
    details = ("kind", "eliminations")
    measured = score_matrix(pa.table(columns), ("unit",), dict.fromkeys(_BASELINES, 0.0), details=details)
    baseline = {name: measured.scores[name][measured.index(way)] for name, way in _BASELINES.items()}
    return replace(measured, baseline=baseline)


def _positive(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Figures; null for 0, which has no ratio."""
    return pc.if_else(pc.greater(values, 0), values, None)


def _check_complete(measured: ScoreMatrix) -> None:
    """A policy that was evaluated on a split must have been evaluated on each unit of it."""
    for contender, asked in zip(measured.contenders, measured.asked, strict=True):
        for split in dict.fromkeys(measured.items["split"][asked]):
            lacking = np.flatnonzero(measured.where(split=split) & ~asked)
            if len(lacking):
                unit = measured.keys[lacking[0]]
                message = f"{contender.name} was evaluated on {split}, but not on unit {unit}"
                raise ArtifactError(f"{message}; evaluate it again")


def unit_counts(measured: ScoreMatrix, split: str) -> dict[str, int]:
    """Units of a split, those with a label, and those whose label is the best of all subsets."""
    units, items = measured.where(split=split), measured.items
    return {
        "units": int(units.sum()),
        "labels": int(items["labelled"][units].sum()),
        "exhaustive_labels": int(items["exhaustive"][units].sum()),
    }


def unit_rows(measured: ScoreMatrix, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Compare every contender, and every learner over its seeds, on each split; each unit is one observation.

    Returns:
        By split (test first) and contender; counts are ``failures``, compiles by kind, `OK` first, and
        ``eliminations`` in the units compared, mean over the seeds.
    """
    return compare(measured, whole, bootstrap, _count)


def _count(measured: ScoreMatrix, members: Sequence[int], items: np.ndarray) -> Row:
    chosen = list(members)
    kinds = Counter(measured.details["kind"][chosen][:, items].ravel().tolist())
    used = items & np.isfinite(measured.scores["score"][chosen]).all(axis=0)
    return {
        "failures": {kind: kinds[kind] for kind in (OK, *sorted(kinds.keys() - {OK, None}))},
        "eliminations": float(measured.details["eliminations"][chosen][:, used].sum() / len(members)),
    }


def unit_record(row: ComparisonRow) -> dict[str, Any]:
    """What is said of a row: means and intervals as ratios to the other score, below 1 is better."""
    score = row.by("score")
    return {
        "learner": row.contender.learner or row.name,
        "num_seeds": max(1, len(row.contender.seeds)),
        "is_policy": row.contender.is_policy,
        "failures": row.counts["failures"],
        "heuristic": _ratios(score),
        "none": _ratios(row.by("none")),
        "size": _ratios(row.by("size")),
        "score_sum": score.policy_sum,
        "heuristic_sum": score.baseline_sum,
        "eliminations": row.counts["eliminations"],
        "headroom_share": score.total_share,
        "verdict": score.verdict,
        "finding": score.finding,
        "p": score.corrected_p,
    }


_FIGURES = {
    "num_units": "num_compared",
    "num_projects": "num_projects",
    "projects_better": "projects.smaller",
    "projects_worse": "projects.larger",
    "better": "items.smaller",
    "worse": "items.larger",
    "same": "items.equal",
    "much_worse": "much_larger",
    "mean_change": "mean_change",
}


def _ratios(one: Comparison) -> Row:
    gains = {
        "geomean": one.geomean.value,
        "low": one.geomean.high,
        "high": one.geomean.low,
        "total": one.total.value,
        "median": one.median.value,
    }
    return one.figures(_FIGURES) | {name: None if gain is None else 1.0 - gain for name, gain in gains.items()}


def num_failed(record: Mapping[str, Any]) -> int:
    """Compiles of a record that failed."""
    return sum(record["failures"].values()) - record["failures"][OK]


def sorted_ratios(measured: ScoreMatrix, name: str, split: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A contender's score and code size over the heuristic's, ascending by the ratio of scores.

    Gives both ratios, float64 [num_compared] each, and names of the units.
    """
    found = ratios(measured, name, split, "score")
    items = [item for item, _ in found]
    size = measured.scores["size"][measured.index(name)][items] / measured.baseline["size"][items]
    return np.array([ratio for _, ratio in found]), size, [measured.keys[item] for item in items]
