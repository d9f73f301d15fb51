"""Choices of redundancy eliminations beside the built-in heuristic, beside none at all, and beside the best known."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.artifacts import CSE_COMPILES, CSE_LABELS, CSE_RESULTS, read_provenance, read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.files import file_sha256
from mlgo.core.names import PolicyName
from mlgo.problems.subset.stored import JudgedUnit, judged_units
from mlgo.report.compare import MIN_MODULES, Bootstrap, Comparison, Verdict, verdict
from mlgo.report.tables import SPLITS

HEURISTIC, NONE, BEST = "heuristic", "none", "best known"
"""Contenders that are no policies: the built-in heuristic, no elimination, and the label of each unit."""

OK = "OK"
"""Kind of a compile that did not fail."""

NO_LABEL = "no_label"
"""Kind of a unit for which no label was found."""

ALL = "all"
"""Scope of all units of a split."""

_MEASURES = {
    "text_bytes": "bytes of text",
    "function_bytes": "bytes of functions",
    "instructions": "executed instructions",
}
_KINDS = {"translation_unit": "translation units", "function": "functions"}


@dataclass(frozen=True)
class Contender:
    """Someone who chose eliminations, and how the units came out.

    Attributes:
        name: policy with its seed, `HEURISTIC`, `NONE` or `BEST`.
        score: float64 [num_units], what is to be small; NaN where the compile failed or was not asked for.
        code_bytes: float64 [num_units], size of the code in bytes, likewise.
        eliminations: float64 [num_units], eliminations done, likewise.
        kinds: for each unit `OK`, the kind of failure, or empty where it was not compiled.
    """

    name: str
    score: np.ndarray
    code_bytes: np.ndarray
    eliminations: np.ndarray
    kinds: tuple[str, ...]

    @property
    def is_policy(self) -> bool:
        """Whether it was trained."""
        return self.name not in (HEURISTIC, NONE, BEST)

    @property
    def learner(self) -> str:
        """Name without the seed."""
        return PolicyName.of(self.name).learner if self.is_policy else self.name


@dataclass(frozen=True)
class MeasuredUnits:
    """Everything measured, unit by unit.

    Attributes:
        task: ``gcc-pre`` or ``jit-cse``.
        measure: what the score is, in words; lower is better.
        kind: what units are, in words.
        units: learnt from or judged, in the order of the baseline.
        contenders: heuristic, none, best known, then policies in the order of their tables.
        labelled: bool [num_units], a label is known.
        exhaustive: bool [num_units], the label is the best of all subsets.
    """

    task: str
    measure: str
    kind: str
    units: tuple[JudgedUnit, ...]
    contenders: tuple[Contender, ...]
    labelled: np.ndarray
    exhaustive: np.ndarray

    def by(self, name: str) -> Contender:
        """The contender of this name."""
        return next(one for one in self.contenders if one.name == name)

    @property
    def policies(self) -> list[str]:
        """Names of those that were trained."""
        return [one.name for one in self.contenders if one.is_policy]

    @property
    def splits(self) -> list[str]:
        """Splits that have units, as they are shown."""
        present = {unit.split for unit in self.units}
        return [split for split in SPLITS if split in present]

    def members(self, split: str, scope: str = ALL) -> np.ndarray:
        """Units of a split and a project or `ALL`, bool [num_units]."""
        return np.array([unit.split == split and scope in (ALL, unit.project) for unit in self.units])

    def projects(self, split: str) -> list[str]:
        """Projects of a split by name; none where units belong to none."""
        return sorted({unit.project for unit in self.units if unit.split == split and unit.project})


@dataclass(frozen=True)
class Beside:
    """A contender's scores, or sizes, ``d`` beside another's ``b``, unit by unit; below 1, or below 0, is better.

    Attributes:
        num_units: units compared: both compiled.
        better: units with ``d < b``.
        worse: units with ``d > b``.
        same: units with ``d == b``.
        over_2_percent: units with ``d > 1.02 b``.
        mean_change: arithmetic mean of ``d / b - 1``; None without units.
        geomean: ``exp(mean(log(d / b)))``; None without units.
        low: lower end of its interval; None for fewer than two units, or two projects where whole ones are resampled.
        high: upper end.
    """

    num_units: int
    better: int
    worse: int
    same: int
    over_2_percent: int
    mean_change: float | None
    geomean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CseRow:
    """One contender on some units. Of several seeds, sums, means and geometric means are means of the seeds' ones.

    Attributes:
        contender: `Contender.name`, or ``<learner>-mean`` for a learner over its seeds.
        learner: name without the seed.
        num_seeds: policies taken together.
        is_policy: whether it was trained.
        split: train, validation or test.
        scope: `ALL` or a project.
        failures: units by kind of failure, `OK` first; added up over the seeds.
        heuristic: its scores beside the built-in heuristic's.
        none: its scores beside those without elimination.
        size: its code sizes beside the heuristic's.
        score_sum: sum over the units compared with the heuristic.
        heuristic_sum: the same units under the heuristic.
        eliminations: eliminations done in these units.
        headroom_share: ``(heuristic - contender) / (heuristic - best known)`` of the sums over the units that have a
            label, too; None where the labels are not better in sum.
        verdict: on the score beside the heuristic's.
    """

    contender: str
    learner: str
    num_seeds: int
    is_policy: bool
    split: str
    scope: str
    failures: Mapping[str, int]
    heuristic: Beside
    none: Beside
    size: Beside
    score_sum: float
    heuristic_sum: float
    eliminations: float
    headroom_share: float | None
    verdict: Verdict

    @property
    def num_failed(self) -> int:
        """Compiles that failed."""
        return sum(self.failures.values()) - self.failures[OK]


def read_measured(task: str, baseline: Path, labels: Path, evaluations: Sequence[Path]) -> MeasuredUnits:
    """Read what the stages left.

    Args:
        task: that all of it must belong to.
        baseline: folder with ``units.parquet`` and ``compiles.parquet``.
        labels: ``artifacts.CSE_LABELS``.
        evaluations: ``artifacts.CSE_RESULTS``.

    Raises:
        ArtifactError: a file is missing or damaged, or belongs to another task, baseline or set of units.
        CorpusError: there is no unit to judge.
    """
    units = tuple(judged_units(baseline))
    number = {unit.name: i for i, unit in enumerate(units)}
    origin = read_provenance(baseline / "compiles.parquet")
    if origin.get("task") != task:
        raise ArtifactError(f"{baseline} was made for task {origin.get('task')}, not {task}; enumerate again")
    known = file_sha256(baseline / "compiles.parquet")
    for path in (labels, *evaluations):
        if read_provenance(path).get("baseline_sha256") != known:
            raise ArtifactError(f"{path} was made with another baseline than {baseline}; run its stage again")
    compiles = read_table(baseline / "compiles.parquet", CSE_COMPILES).to_pylist()
    found = [
        _contender(way, [row for row in compiles if row["way"] == way and row["unit"] in number], number)
        for way in (HEURISTIC, NONE)
    ]
    labelled = read_table(labels, CSE_LABELS)
    best = _contender(BEST, _of_units(labelled, number, labels), number)
    exhaustive = {row["unit"] for row in labelled.to_pylist() if row["exhaustive"]}
    return MeasuredUnits(
        task=task,
        measure="PerfScore" if task == "jit-cse" else _MEASURES[origin["cse"]["gcc"]["score"]],
        kind="methods" if task == "jit-cse" else _KINDS[origin["cse"]["gcc"]["unit"]],
        units=units,
        contenders=(*found, _with_kind(best, NO_LABEL), *_policies(evaluations, units, number)),
        labelled=np.isfinite(best.score),
        exhaustive=np.array([unit.name in exhaustive for unit in units]),
    )


def cse_rows(measured: MeasuredUnits, bootstrap: Bootstrap) -> list[CseRow]:
    """Compare every contender, and every learner over its seeds, on each split and each of its projects.

    Intervals are over resampled units, or whole projects where units belong to some: units of one project resemble each
    other.

    Args:
        measured: what is compared.
        bootstrap: makes the intervals.

    Returns:
        By split (test first), scope (`ALL` first) and contender. Those evaluated on no unit of a scope are left out.
    """
    return [
        _row(measured, name, members, split, scope, bootstrap)
        for split in measured.splits
        for scope in (ALL, *measured.projects(split))
        for name, members in _contenders(measured, measured.members(split, scope))
    ]


def ratios(measured: MeasuredUnits, name: str, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A contender's score and code size over the heuristic's, ascending by the ratio of scores.

    Args:
        measured: what is compared.
        name: contender.
        units: which, bool [num_units]; those that failed are left out.

    Returns:
        Ratios of scores and of sizes, float64 [num_compared] each, and names of the units.
    """
    one, heuristic = measured.by(name), measured.by(HEURISTIC)
    score, size = one.score / heuristic.score, one.code_bytes / heuristic.code_bytes
    used = [int(i) for i in np.flatnonzero(units & np.isfinite(score))]
    used.sort(key=lambda i: (score[i], measured.units[i].name))
    return score[used], size[used], [measured.units[i].name for i in used]


def _contender(name: str, rows: Sequence[Mapping[str, Any]], number: Mapping[str, int]) -> Contender:
    values = np.full((3, len(number)), np.nan)
    kinds = [""] * len(number)
    for row in rows:
        i = number[row["unit"]]
        if kinds[i]:
            raise ArtifactError(f"{name} has unit {row['unit']} twice; name each table once, or run its stage again")
        kinds[i] = row["failure"] or OK
        if not row["failure"]:
            values[:, i] = row["score"], row["code_bytes"], row["num_performed"]
    score, code_bytes, eliminations = values
    return Contender(name, score, code_bytes, eliminations, tuple(kinds))


def _with_kind(contender: Contender, missing: str) -> Contender:
    kinds = tuple(kind or missing for kind in contender.kinds)
    return Contender(contender.name, contender.score, contender.code_bytes, contender.eliminations, kinds)


def _of_units(table: pa.Table, number: Mapping[str, int], path: Path) -> list[dict[str, Any]]:
    """Rows of a table, all of which must be about known units."""
    rows: list[dict[str, Any]] = table.to_pylist()
    unknown = next((row["unit"] for row in rows if row["unit"] not in number), None)
    if unknown is not None:
        raise ArtifactError(f"{path} holds unit {unknown}, which the baseline does not judge; run its stage again")
    return rows


def _policies(
    evaluations: Sequence[Path], units: Sequence[JudgedUnit], number: Mapping[str, int]
) -> Iterator[Contender]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for path in evaluations:
        rows = _of_units(read_table(path, CSE_RESULTS), number, path)
        if not rows:
            raise ArtifactError(f"{path} holds no unit; evaluate again")
        for row in rows:
            by_name.setdefault(str(PolicyName(row["policy"], row["seed"])), []).append(row)
    for name, rows in by_name.items():
        contender = _contender(name, rows, number)
        splits = {row["split"] for row in rows}
        lacking = [unit for unit, kind in zip(units, contender.kinds, strict=True) if unit.split in splits and not kind]
        if lacking:
            raise ArtifactError(
                f"{name} was evaluated on {lacking[0].split}, but not on unit {lacking[0].name}; evaluate it again"
            )
        yield contender


def _contenders(measured: MeasuredUnits, units: np.ndarray) -> Iterator[tuple[str, list[Contender]]]:
    """Contenders that were compiled on some of these units; after the seeds of a learner all of them together."""
    by_learner: dict[str, list[Contender]] = {}
    for one in measured.contenders:
        if any(kind for kind, member in zip(one.kinds, units, strict=True) if member):
            by_learner.setdefault(one.learner, []).append(one)
    for learner, of_seeds in by_learner.items():
        yield from ((one.name, [one]) for one in of_seeds)
        if len(of_seeds) > 1:
            yield f"{learner}-mean", of_seeds


def _row(
    measured: MeasuredUnits, name: str, members: Sequence[Contender], split: str, scope: str, bootstrap: Bootstrap
) -> CseRow:
    units = measured.members(split, scope)
    projects = np.array([unit.project for unit in measured.units])
    groups = np.unique(projects, return_inverse=True)[1] if scope == ALL and any(projects) else None
    scores, sizes = (np.stack([getattr(one, kind) for one in members]) for kind in ("score", "code_bytes"))
    heuristic, none, best = (measured.by(other).score for other in (HEURISTIC, NONE, BEST))

    def beside(values: np.ndarray, other: np.ndarray, what: str) -> tuple[Beside, Comparison]:
        return _beside(values, np.where(units, other, np.nan), groups, bootstrap, name, split, scope, what)

    against, comparison = beside(scores, heuristic, "score")
    used = units & _usable(scores, heuristic)
    with_label = used & np.isfinite(best)
    headroom = math.fsum(heuristic[with_label]) - math.fsum(best[with_label])
    captured = math.fsum(heuristic[with_label]) - _mean_sum(scores[:, with_label])
    kinds = Counter(kind for one in members for kind, member in zip(one.kinds, units, strict=True) if member and kind)
    resampled = int(used.sum()) if groups is None else len(np.unique(groups[used]))
    return CseRow(
        contender=name,
        learner=members[0].learner,
        num_seeds=len(members),
        is_policy=members[0].is_policy,
        split=split,
        scope=scope,
        failures={kind: kinds[kind] for kind in (OK, *sorted(kind for kind in kinds if kind != OK))},
        heuristic=against,
        none=beside(scores, none, "none")[0],
        size=beside(sizes, measured.by(HEURISTIC).code_bytes, "size")[0],
        score_sum=_mean_sum(scores[:, used]),
        heuristic_sum=math.fsum(heuristic[used]),
        eliminations=_mean_sum(np.stack([one.eliminations for one in members])[:, used]),
        headroom_share=captured / headroom if headroom > 0.0 else None,
        # What `compare.MIN_MODULES` says of few modules holds for few projects where those are resampled.
        verdict=verdict(comparison) if resampled >= MIN_MODULES else "no difference shown",
    )


def _beside(
    values: np.ndarray, other: np.ndarray, groups: np.ndarray | None, bootstrap: Bootstrap, *names: str
) -> tuple[Beside, Comparison]:
    """Compare values [num_seeds, num_units] with others [num_units]; units that lack one are left out."""
    used = _usable(values, other)
    values, other = values[:, used], other[used]
    parts = None if groups is None else groups[used]
    names = ("cse", *names)
    if len(values) == 1:
        found = bootstrap.compare(values[0], other, *names, groups=parts)
    else:
        found = bootstrap.compare_seeds(values, other, *names, groups=parts)
    geomean, low, high = (
        None if gain is None else 1.0 - gain for gain in (found.geomean, found.geomean_high, found.geomean_low)
    )
    change = float(np.mean(values / other - 1.0)) if used.any() else None
    counts = (found.num_modules, found.wins, found.losses, found.ties, found.worse_than_2_percent)
    return Beside(*counts, change, geomean, low, high), found


def _usable(values: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Units whose ratio is known under every seed, bool [num_units]; comparing with NaN is false."""
    return np.asarray((values > 0.0).all(axis=0) & (other > 0.0))


def _mean_sum(values: np.ndarray) -> float:
    """Sum over the units of values [num_seeds, num_units], mean over the seeds, without loss of digits."""
    return math.fsum(math.fsum(of_seed) for of_seed in values) / len(values)
