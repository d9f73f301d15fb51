"""Choices among candidates, unit by unit: beside the built-in heuristic, beside none at all, beside the best known."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import CSE_COMPILES, CSE_LABELS, CSE_RESULTS, read_provenance, read_table
from mlgo.base.files import file_sha256
from mlgo.compare.inference import Bootstrap, Comparison
from mlgo.compare.scores import ALL, ComparisonRow, Contender, ItemSubset, ScoreMatrix, compare
from mlgo.errors import ArtifactError
from mlgo.jit.problem import choice_problem
from mlgo.jit.stored import EligibleUnit, eligible_units

HEURISTIC, NONE, BEST = "heuristic", "none", "best known"
"""Contenders that are no policies: the built-in heuristic, no elimination, and the label of each unit."""

OK = "OK"
"""Kind of a compile that did not fail."""

NO_LABEL = "no_label"
"""Kind of a unit for which no label was found."""


@dataclass(frozen=True)
class Units:
    """Everything measured, unit by unit.

    Attributes:
        task: decision problem.
        measure: what the score is, in words; lower is better.
        kind: what units are, in words.
        measured: by ``score`` and code ``size`` beside the heuristic's, and by the score beside that without
            elimination, ``none``. Attributes of a unit are its split, project, ``num_viable`` candidates, and whether
            its label is known (``labelled``) and the best of all subsets (``exhaustive``).
    """

    task: str
    measure: str
    kind: str
    measured: ScoreMatrix

    def counts(self, split: str) -> dict[str, int]:
        """Units of a split, those with a label, and those whose label is the best of all subsets."""
        units, items = self.measured.where(split=split), self.measured.items
        return {
            "units": int(units.sum()),
            "labels": int(items["labelled"][units].sum()),
            "exhaustive_labels": int(items["exhaustive"][units].sum()),
        }


def read_units(task: str, baseline: Path, labels: Path, evaluations: Sequence[Path]) -> Units:
    """Read what the stages left."""
    units = eligible_units(baseline)
    origin = read_provenance(baseline / "compiles.parquet")
    if origin.get("task") != task:
        raise ArtifactError(f"{baseline} was made for task {origin.get('task')}, not {task}; enumerate again")
    known = file_sha256(baseline / "compiles.parquet")
    for path in (labels, *evaluations):
        if read_provenance(path).get("baseline_sha256") != known:
            raise ArtifactError(f"{path} was made with another baseline than {baseline}; run its stage again")
    names = {unit.name for unit in units}
    told = [row for row in read_table(baseline / "compiles.parquet", CSE_COMPILES).to_pylist() if row["unit"] in names]
    rows = {Contender(way): [row for row in told if row["way"] == way] for way in (HEURISTIC, NONE)}
    labelled = {row["unit"]: row for row in _of_units(read_table(labels, CSE_LABELS), names, labels)}
    unlabelled = {"score": None, "code_bytes": None, "num_performed": None, "failure": NO_LABEL}
    rows[Contender(BEST)] = [labelled.get(unit.name, {"unit": unit.name, **unlabelled}) for unit in units]
    for path in evaluations:
        found = _of_units(read_table(path, CSE_RESULTS), names, path)
        if not found:
            raise ArtifactError(f"{path} holds no unit; evaluate again")
        for row in found:
            rows.setdefault(Contender.policy(row["policy"], row["seed"]), []).append(row)
    counted = choice_problem(task).counted
    return Units(
        task,
        counted.measure,
        counted.units,
        _measured(units, rows, {name for name, row in labelled.items() if row["exhaustive"]}),
    )


def unit_rows(measured: ScoreMatrix, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Compare every contender, and every learner over its seeds, on each split and each of its projects.

    Units that belong to no project are projects by themselves.

    Returns:
        By split (test first), scope (`ALL` first) and contender; counts are ``failures``, compiles by kind, `OK` first,
        and ``eliminations`` in the units compared, mean over the seeds. What is said of whole splits is corrected
        together, split by split.
    """
    whole = [ItemSubset(split, ALL, measured.where(split=split)) for split in measured.splits]
    parts = measured.subsets(ScoreMatrix.by_project)
    places = [place for one in whole for place in (one, *(part for part in parts if part.split == one.split))]
    return compare(measured, places, bootstrap, _count, family=lambda row: (row.split, row.scope == ALL))


def unit_record(row: ComparisonRow) -> dict[str, Any]:
    """What is said of a row: means and intervals as ratios to the other score, below 1 is better."""
    score = row.by("score")
    return {
        "learner": row.contender.learner or row.name,
        "num_seeds": max(1, len(row.contender.seeds)),
        "is_policy": row.contender.is_policy,
        "failures": row.counts["failures"],
        "heuristic": _beside(score),
        "none": _beside(row.by("none")),
        "size": _beside(row.by("size")),
        "score_sum": score.policy_sum,
        "heuristic_sum": score.baseline_sum,
        "eliminations": row.counts["eliminations"],
        "headroom_share": score.total_share,
        "verdict": score.verdict,
        "finding": score.finding,
        "p": score.corrected_p,
    }


def num_failed(record: Mapping[str, Any]) -> int:
    """Compiles of a record that failed."""
    return sum(record["failures"].values()) - record["failures"][OK]


def ratios(measured: ScoreMatrix, name: str, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A contender's score and code size over the heuristic's, ascending by the ratio of scores.

    Returns:
        Ratios of scores and of sizes, float64 [num_compared] each, and names of the units.
    """
    one = measured.index(name)
    score, size = (measured.scores[what][one] / measured.baseline[what] for what in ("score", "size"))
    used = [int(i) for i in np.flatnonzero(units & np.isfinite(score))]
    used.sort(key=lambda i: (score[i], measured.keys[i]))
    return score[used], size[used], [measured.keys[i] for i in used]


def _measured(
    units: Sequence[EligibleUnit], rows: Mapping[Contender, Sequence[Mapping[str, Any]]], exhaustive: set[str]
) -> ScoreMatrix:
    number = {unit.name: i for i, unit in enumerate(units)}
    shape = len(rows), len(units)
    score, size, performed = np.full((3, *shape), np.nan)
    kinds = np.full(shape, "", object)
    for i, (contender, told) in enumerate(rows.items()):
        for row in told:
            j = number[row["unit"]]
            if kinds[i, j]:
                unit = row["unit"]
                raise ArtifactError(
                    f"{contender.name} has unit {unit} twice; name each table once, or run its stage again"
                )
            kinds[i, j] = row["failure"] or OK
            if not row["failure"]:
                score[i, j], size[i, j], performed[i, j] = row["score"], row["code_bytes"], row["num_performed"]
        splits = {unit.split for unit, kind in zip(units, kinds[i], strict=True) if kind}
        lacking = [unit for unit, kind in zip(units, kinds[i], strict=True) if unit.split in splits and not kind]
        if lacking and contender.is_policy:
            split, unit = lacking[0].split, lacking[0].name
            raise ArtifactError(f"{contender.name} was evaluated on {split}, but not on unit {unit}; evaluate it again")
    score, size = (np.where(values > 0.0, values, np.nan) for values in (score, size))  # 0 has no ratio
    names = [one.name for one in rows]
    heuristic, none, best = (names.index(name) for name in (HEURISTIC, NONE, BEST))
    attributes = {
        "split": [unit.split for unit in units],
        "project": [unit.project for unit in units],
        "num_viable": [unit.num_viable for unit in units],
        "labelled": np.isfinite(score[best]).tolist(),
        "exhaustive": [unit.name in exhaustive for unit in units],
    }
    return ScoreMatrix(
        list(rows),
        list(number),
        {name: np.array(values, object) for name, values in attributes.items()},
        {"score": score, "none": score, "size": size},
        {"score": score[heuristic], "none": score[none], "size": size[heuristic]},
        kinds != "",
        {"kind": kinds, "eliminations": performed},
        {"score": score[best]},
    )


def _of_units(table: pa.Table, known: Iterable[str], path: Path) -> list[dict[str, Any]]:
    """Rows of a table, all of which must be about known units."""
    rows: list[dict[str, Any]] = table.to_pylist()
    unknown = next((row["unit"] for row in rows if row["unit"] not in known), None)
    if unknown is not None:
        raise ArtifactError(f"{path} holds unit {unknown}, which the baseline does not judge; run its stage again")
    return rows


def _count(measured: ScoreMatrix, members: Sequence[int], items: np.ndarray) -> dict[str, Any]:
    kinds = Counter(measured.details["kind"][list(members)][:, items].ravel().tolist())
    used = (
        items
        & np.isfinite(measured.scores["score"][list(members)]).all(axis=0)
        & np.isfinite(measured.baseline["score"])
    )
    return {
        "failures": {kind: kinds[kind] for kind in (OK, *sorted(kinds.keys() - {OK, ""}))},
        "eliminations": float(measured.details["eliminations"][list(members)][:, used].sum() / len(members)),
    }


def _beside(one: Comparison) -> dict[str, Any]:
    geomean, high, low = (None if gain is None else 1.0 - gain for gain in one.geomean)
    return {
        "num_units": one.num_compared,
        "num_projects": one.num_projects,
        "projects_better": one.projects.smaller,
        "projects_worse": one.projects.larger,
        "better": one.items.smaller,
        "worse": one.items.larger,
        "same": one.items.equal,
        "much_worse": one.much_larger,
        "mean_change": one.mean_change,
        "geomean": geomean,
        "low": low,
        "high": high,
        "total": None if one.total.value is None else 1.0 - one.total.value,
        "median": None if one.median.value is None else 1.0 - one.median.value,
    }
