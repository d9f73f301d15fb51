"""Choices among candidates, unit by unit: beside the built-in heuristic, beside none at all, beside the best known."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import CSE_COMPILES, CSE_LABELS, CSE_RESULTS, Row, RowView, read_provenance, read_table
from mlgo.base.files import file_sha256
from mlgo.compare.inference import Bootstrap, Comparison
from mlgo.compare.scores import ComparisonRow, Contender, ScoreMatrix, compare, score_matrix, whole
from mlgo.errors import ArtifactError
from mlgo.jit.baseline import EligibleUnit, eligible_units

HEURISTIC, NONE, BEST = "heuristic", "none", "best known"
"""Contenders that are no policies: the built-in heuristic, no elimination, and the label of each unit."""

OK = "OK"
"""Kind of a compile that did not fail."""

NO_LABEL = "no_label"
"""Kind of a unit for which no label was found."""

_UNLABELLED = {"score": None, "code_bytes": None, "num_performed": None, "failure": NO_LABEL, "exhaustive": False}


def read_units(task: str, baseline: Path, labels: Path, evaluations: Sequence[Path]) -> ScoreMatrix:
    """Read what the stages left.

    Returns:
        By ``score`` and code ``size`` beside the heuristic's, and by the score beside that without elimination,
        ``none``. Attributes of a unit are its split, ``num_viable`` candidates, and whether its label is known
        (``labelled``) and the best of all subsets (``exhaustive``). Details are the ``kind`` of a compile and its
        ``eliminations``.
    """
    units = {unit.name: unit for unit in eligible_units(baseline)}
    origin = read_provenance(baseline / "compiles.parquet")
    if origin.get("task") != task:
        raise ArtifactError(f"{baseline} was made for task {origin.get('task')}, not {task}; enumerate again")
    known = file_sha256(baseline / "compiles.parquet")
    for path in (labels, *evaluations):
        if read_provenance(path).get("baseline_sha256") != known:
            raise ArtifactError(f"{path} was made with another baseline than {baseline}; run its stage again")
    compiles = read_table(baseline / "compiles.parquet", CSE_COMPILES).to_pylist()
    ways = {way: {row["unit"]: row for row in compiles if row["way"] == way} for way in (HEURISTIC, NONE)}
    found = {row["unit"]: row for row in _of_units(read_table(labels, CSE_LABELS).to_pylist(), units, labels)}
    best = {name: found.get(name, {"unit": name, **_UNLABELLED}) for name in units}
    references = ((way, rows[name]) for way, rows in {**ways, BEST: best}.items() for name in units)
    rows = [(Contender(way), row) for way, row in references]
    for path in evaluations:
        results = _of_units(read_table(path, CSE_RESULTS).to_pylist(), units, path)
        if not results:
            raise ArtifactError(f"{path} holds no unit; evaluate again")
        rows += [(Contender.policy(row["policy"], row["seed"]), row) for row in results]
    _check_once(rows)
    baselines = {
        name: {
            "baseline_score": ways[HEURISTIC][name]["score"],
            "baseline_none": ways[NONE][name]["score"],
            "baseline_size": ways[HEURISTIC][name]["code_bytes"],
            **_attributes(unit, best[name]),
        }
        for name, unit in units.items()
    }
    cells = [{**baselines[row["unit"]], **_cell(contender, row)} for contender, row in rows]
    offsets = {"score": 0.0, "none": 0.0, "size": 0.0}
    attributes = ("split", "num_viable", "labelled", "exhaustive")
    measured = score_matrix(pa.Table.from_pylist(cells), ("unit",), offsets, attributes, ("kind", "eliminations"))
    _check_complete(measured)
    return replace(measured, best={"score": measured.scores["score"][measured.index(BEST)]})


def _attributes(unit: EligibleUnit, best: RowView) -> Row:
    return {
        "split": unit.split,
        "num_viable": unit.num_viable,
        "labelled": _positive(best["score"]) is not None,
        "exhaustive": best["exhaustive"],
    }


def _cell(contender: Contender, row: RowView) -> Row:
    score = _positive(row["score"])
    return {
        "unit": row["unit"],
        "contender": contender.name,
        "score": score,
        "none": score,
        "size": _positive(row["code_bytes"]),
        "kind": row["failure"] or OK,
        "eliminations": row["num_performed"],
    }


def _positive(value: float | None) -> float | None:
    """A figure; None for 0, which has no ratio."""
    return value if value is not None and value > 0.0 else None


def _of_units(rows: list[Row], known: Iterable[str], path: Path) -> list[Row]:
    """Rows of a table, all of which must be about known units."""
    unknown = next((row["unit"] for row in rows if row["unit"] not in known), None)
    if unknown is not None:
        raise ArtifactError(f"{path} holds unit {unknown}, which the baseline does not judge; run its stage again")
    return rows


def _check_once(rows: Iterable[tuple[Contender, RowView]]) -> None:
    (((contender, unit), number),) = Counter((one.name, row["unit"]) for one, row in rows).most_common(1)
    if number > 1:
        raise ArtifactError(f"{contender} has unit {unit} twice; name each table once, or run its stage again")


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

    Returns:
        Ratios of scores and of sizes, float64 [num_compared] each, and names of the units.
    """
    one = measured.index(name)
    score, size = (measured.scores[what][one] / measured.baseline[what] for what in ("score", "size"))
    used = np.flatnonzero(measured.where(split=split) & np.isfinite(score)).tolist()
    used.sort(key=lambda i: (score[i], measured.keys[i]))
    return score[used], size[used], [measured.keys[i] for i in used]
