"""The points of a sweep: what each gains over its seeds, what failed, and what that cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.base.files import read_record
from mlgo.base.names import PolicyName
from mlgo.base.registry import Kind
from mlgo.compare.inference import Bootstrap, Comparison
from mlgo.compare.modules import policy_scores
from mlgo.compare.scores import ComparisonRow, ScoreMatrix, compare, corrected, whole
from mlgo.compare.trainings import check_seeds, count_evaluations
from mlgo.compare.units import read_units
from mlgo.errors import ArtifactError
from mlgo.jit import MEASURE
from mlgo.learn.cost import PREFIXES, TrainingCost, cost_path, read_cost, read_experiments
from mlgo.objects.measures import get_measure
from mlgo.policy.stored import FAILURE
from mlgo.research.matrix import Sweep, SweepTraining

SPLITS = ("validation", "test")
"""Splits that points are compared on where they have units, in the order in which they are shown."""

State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Point:
    """What one training of a sweep has come to."""

    training: SweepTraining
    measure: str
    title: str
    failures: Mapping[int, str]  # why there is no result, by seed; a study ends trainings early, too
    # Policies with a history: those that did not fail, and those of a study that were pruned.
    trained: Sequence[PolicyName]
    evaluations: float | None
    # By split, over all seeds that did not fail, corrected for all points; empty if all did.
    rows: Mapping[str, ComparisonRow]
    by_seed: Mapping[str, Sequence[ComparisonRow]]
    best: bool = False  # greatest gain on the validation split among the points of its task

    @property
    def state(self) -> State:
        """Whether all seeds have a result, or why not."""
        if not self.failures:
            return "complete"
        return "pruned" if self.failures.keys() <= {policy.seed for policy in self.trained} else "failed"

    @property
    def label(self) -> str:
        """Task, learner and settings, for people."""
        one = self.training
        values = [f"{key} {value}" for key, value in one.settings.items()]
        return ", ".join(filter(None, [one.task, one.learner, *values]))

    def on(self, split: str) -> Comparison | None:
        """Comparison on a split; None if all seeds failed."""
        return self.rows[split].by(self.measure) if self.rows else None

    def gain(self, split: str) -> float | None:
        """Gain of the geometric mean; None without modules, or if all seeds failed."""
        one = self.on(split)
        return one.geomean.value if one else None


def read_points(folder: Path, sweep: Sweep, bootstrap: Bootstrap) -> list[Point]:
    """Read what every point has come to, in ``policies``, ``results`` and ``homes`` of a folder."""
    points = [_point(folder, training, sweep.seeds, bootstrap) for training in sweep.points]
    # What is said of all points of a split stands in one table.
    together = iter(corrected([row for one in points for row in one.rows.values()], lambda row: row.split))
    points = [replace(one, rows={split: next(together) for split in one.rows}) for one in points]
    best: dict[str, tuple[float, str]] = {}
    for one in points:
        gain, task = one.gain("validation"), one.training.task
        if gain is not None and one.state != "pruned" and (task not in best or gain > best[task][0]):
            best[task] = gain, one.training.name
    names = [name for _, name in best.values()]
    return [replace(one, best=one.training.name in names) for one in points]


def _point(folder: Path, training: SweepTraining, seeds: Sequence[int], bootstrap: Bootstrap) -> Point:
    names = [PolicyName(training.name, seed) for seed in seeds]
    messages = {one.seed: _failure(folder / "policies", one) or _failure(folder / "results", one) for one in names}
    failures = {seed: message for seed, message in messages.items() if message is not None}
    policies = [str(one) for one in names if one.seed not in failures]
    check_seeds(folder / "policies" / policy for policy in policies)
    histories = (folder / "policies" / str(one) / "history.csv" for one in names)
    trained = [one for one, path in zip(names, histories, strict=True) if one.seed not in failures or path.exists()]
    counts = [count_evaluations(folder / "policies", str(one)) for one in trained]
    measure, title = "score", MEASURE
    if training.kind == "modules":
        measure = training.config["compile"]["objective"]
        title = get_measure(measure).words.title
    point = Point(training, measure, title, failures, trained, float(np.mean(counts)) if counts else None, {}, {})
    if not policies:
        return point
    measured = _measured(folder, point, policies)
    if not measured.asked[:, np.isin(measured.items["split"].astype(str), SPLITS)].all():
        raise ArtifactError(
            f"the seeds of {training.name} were not evaluated on the same modules; delete data/sweep/results and run: "
            "make sweep"
        )
    compared = [split for split in SPLITS if split in measured.splits]
    of_split = {split: compare(measured, whole, bootstrap, split=split) for split in compared}
    return replace(
        point,
        rows={split: rows[-1] for split, rows in of_split.items()},
        by_seed={split: rows[: len(policies)] for split, rows in of_split.items()},
    )


def _measured(folder: Path, point: Point, policies: Sequence[str]) -> ScoreMatrix:
    """Scores under the policies of a point."""
    training, tables = point.training, [folder / "results" / policy / "results.parquet" for policy in policies]
    if training.kind == "modules":
        return policy_scores(pa.concat_tables([read_table(table, RESULTS) for table in tables]), [point.measure])
    home = (folder / "homes" / training.home if training.home else folder.parent) / "cse"
    units = read_units(training.config["task"], home / "baseline", home / "labels" / "labels.parquet", tables)
    measured = units.only(policies)
    return replace(measured, scores={point.measure: measured.scores[point.measure]})


def _failure(folder: Path, policy: PolicyName) -> str | None:
    if not (home := folder / str(policy)).exists():
        raise ArtifactError(f"{home} is missing; make it with: make sweep")
    return read_record(home / FAILURE)["message"] if (home / FAILURE).exists() else None


@dataclass(frozen=True)
class Cost:
    """What some trainings cost together, on their machine; it differs from run to run."""

    name: str
    trainings: int
    evaluations: int
    compiles: int  # of the evaluations, those that no response tree held
    seconds: float
    complete: bool  # False if any training was killed: the figures are lower bounds then

    @classmethod
    def of(cls, name: str, costs: Sequence[TrainingCost]) -> "Cost":
        """Sum of some trainings."""
        evaluations, compiles = sum(one.evaluations for one in costs), sum(one.compiles for one in costs)
        seconds, complete = round(sum(one.seconds for one in costs), 1), all(one.complete for one in costs)
        return cls(name, len(costs), evaluations, compiles, seconds, complete)

    @property
    def saved(self) -> float | None:
        """Share of the evaluations that the trees answered; None without any."""
        return 1.0 - self.compiles / self.evaluations if self.evaluations else None


def cost_of_seeds(work: Path, learner: str, seeds: Sequence[int], kind: Kind = "modules") -> Cost | None:
    """What a learner's trainings on this kind of task cost; None if that is not known of all of them."""
    policies = [f"{PREFIXES[kind]}{PolicyName(learner, seed)}" for seed in seeds]
    if not all(cost_path(work, policy).exists() for policy in policies):
        return None
    return Cost.of(learner, [read_cost(work, policy) for policy in policies])


def experiment_costs(work: Path) -> list[Cost]:
    """What each of DVC's experiments cost, all of its trainings together."""
    found = read_experiments(work)
    if not found:
        raise ArtifactError("no experiment has left its cost; run some with: dvc exp run --queue, and dvc queue start")
    return [Cost.of(name, list(costs.values())) for name, costs in found.items()]
