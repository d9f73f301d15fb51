"""What trainings left: their histories, the best policy within so many compiles, and whether seeds stand together."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import Row, RowView
from mlgo.base.files import read_input, read_record, readable
from mlgo.base.names import PolicyName
from mlgo.errors import ArtifactError
from mlgo.learn.cost import cost_path, read_cost


@dataclass(frozen=True)
class Curve:
    """History of one training run: numbers by column name, one per record, None where a record has none."""

    policy: str
    columns: dict[str, list[float | None]]

    @property
    def step(self) -> str:
        """Name of the first column, which counts: epoch, generation or iteration."""
        return next(iter(self.columns), "")

    def points(self, step: str, name: str, scale: float = 1.0) -> tuple[list[float], list[float]]:
        """Steps and scaled values of the records that have both; empty when a column is missing."""
        pairs = zip(self.columns.get(step, []), self.columns.get(name, []), strict=False)
        known = [(x, scale * y) for x, y in pairs if x is not None and y is not None]
        return [x for x, _ in known], [y for _, y in known]


def read_curves(folder: Path, policies: Sequence[str]) -> list[Curve]:
    """Read ``<policy>/history.csv`` of each policy."""
    return [Curve(name, _read_columns(folder / name / "history.csv")) for name in policies]


def with_minutes(curves: Sequence[Curve], work: Path, prefix: str = "") -> list[Curve]:
    """Curves with a column ``minutes`` of one core, where the cost of the training is known.

    A training's time is known in total only, so each of its compiles takes the same.
    """
    found = []
    for curve in curves:
        counts = [count for count in curve.columns.get("evaluations", []) if count is not None]
        if cost_path(work, prefix + curve.policy).exists() and counts and counts[-1]:
            cost = read_cost(work, prefix + curve.policy)
            pace = cost.seconds * cost.workers / 60 / counts[-1]
            spent = [None if one is None else pace * one for one in curve.columns["evaluations"]]
            curve = replace(curve, columns={**curve.columns, "minutes": spent})
        found.append(curve)
    return found


def _read_columns(path: Path) -> dict[str, list[float | None]]:
    with readable(path, "a table of numbers", ValueError, TypeError, csv.Error):
        reader = csv.DictReader(read_input(path).decode().splitlines())
        names, records = reader.fieldnames or [], list(reader)
        return {name: [float(record[name]) if record[name] else None for record in records] for name in names}


def count_evaluations(policies: Path, policy: str) -> float:
    """Compiles that a training asked for, by the last line of its history."""
    path = policies / policy / "history.csv"
    if not path.exists():
        raise ArtifactError(
            f"{path} is missing; run the train stage: snakemake --cores all train, with the --configfile of the other "
            "results"
        )
    (curve,) = read_curves(policies, [policy])
    counts = [count for count in curve.columns.get("evaluations", []) if count is not None]
    if not counts:
        raise ArtifactError(
            f"{path} has no evaluations, an earlier version wrote it; delete {path.parent}, train again"
        )
    return counts[-1]


BUDGETS = {"evaluations": (100, 300, 1_000, 3_000, 10_000, 30_000), "minutes": (3, 10, 30, 100, 300)}
"""By what is spent, compiles with validations, or minutes of one core: about equal steps of a logarithm."""

_NEARLY = 0.9  # a training that ended after this share of a budget counts as one of that budget
_BEYOND = 1.05  # iterations do not end at round numbers: up to this share of a budget is within it


@dataclass(frozen=True)
class BudgetCurve:
    """A learner over its seeds."""

    learner: str
    seeds: tuple[int, ...]
    # float64 [num_points], what was spent when a policy was validated, in any of its trainings; see `BUDGETS`.
    spent: np.ndarray
    # float64 [num_seeds, num_points], validation reward of the best policy until then; NaN before the first validation.
    gains: np.ndarray

    def within(self, budget: float) -> np.ndarray | None:
        """Gain of each training within a budget, float64 [num_seeds]; None where trainings spent far less."""
        reached = np.flatnonzero(self.spent <= _BEYOND * budget)
        if not reached.size or self.spent[-1] < _NEARLY * budget:
            return None
        found: np.ndarray = self.gains[:, reached[-1]]
        return None if np.isnan(found).any() else found


def budget_curves(curves: Sequence[Curve], spent: str = "evaluations") -> list[BudgetCurve]:
    """Progress of each learner, by name, without those that compile nothing, or that do not say what they spent."""
    named = [(PolicyName.of(curve.policy), curve.points(spent, "validation_reward")) for curve in curves]
    known = sorted((name, *points) for name, points in named if points[0] and points[0][-1] > 0)
    return [_progress(learner, list(group)) for learner, group in groupby(known, lambda one: one[0].learner)]


def _progress(learner: str, trainings: Sequence[tuple[PolicyName, list[float], list[float]]]) -> BudgetCurve:
    spent = np.unique(np.concatenate([np.asarray(x) for _, x, _ in trainings]))
    gains = np.full((len(trainings), spent.size), np.nan)
    for row, (_, x, y) in zip(gains, trainings, strict=True):
        best = np.maximum.accumulate(y)
        last = np.searchsorted(x, spent, side="right") - 1
        row[last >= 0] = best[last[last >= 0]]
    return BudgetCurve(learner, tuple(name.seed for name, *_ in trainings), spent, gains)


_TITLES = {
    "corpus_sha256": "corpus",
    "scores_sha256": "baseline",
    "baseline_sha256": "baseline",
    "trace_sha256": "trace of questions",
    "labels_sha256": "table of labels",
    "effects_sha256": "table of effects",
    "vocabulary": "vocabulary",
    "compiler_sha256": "compiler",
    "compiler": "compiler",
    "target": "target",
    "languages": "set of languages",
    "compile": "way of compiling",
}
"""What trainings can follow from, by where a policy tells it: the cause before what follows from it."""

_SCALING = ("features", "unit", "centre", "scale")


def check_seeds(policies: Iterable[Path]) -> None:
    """Refuse seeds of a learner that were trained on different inputs."""
    first: dict[str, tuple[Path, RowView]] = {}
    for folder in policies:
        record = read_policy_record(folder / "policy.json")
        found = {key: one for key, one in record["provenance"].items() if key in _TITLES}
        found["vocabulary"] = {name: record[name] for name in _SCALING if name in record}
        known, expected = first.setdefault(PolicyName.of(folder.name).learner, (folder, found))
        for key, title in _TITLES.items():
            if found.get(key) != expected.get(key):
                raise ArtifactError(
                    f"{known.name} and {folder.name} were trained on different inputs: another {title} ({key}); seeds "
                    f"of a learner may differ in the seed alone, so delete {known} and {folder} and train both again"
                )


def read_policy_record(path: Path) -> Row:
    """Read ``policy.json`` of a policy that says what it was trained with."""
    record = read_record(path)
    if not isinstance(record.get("provenance"), dict):
        raise ArtifactError(f"{path} carries no provenance; train the policy again")
    return record
