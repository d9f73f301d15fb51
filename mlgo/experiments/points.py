"""The points of a sweep beside each other: what each gains, over its seeds, and what failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlgo.core.artifacts import RESULTS, read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.experiments.compare import Bootstrap
from mlgo.experiments.curves import count_evaluations
from mlgo.experiments.evaluation import gather_modules, policy_rows
from mlgo.experiments.matrix import Sweep, Training
from mlgo.experiments.measured import ALL, Place, Row, compare_all
from mlgo.policy.stored import FAILURE

SPLITS = ("validation", "test")
"""Splits that points are compared on, in the order in which they are shown."""

_DIGITS = 4


@dataclass(frozen=True)
class Point:
    """What one training of a sweep has come to.

    Attributes:
        training: what was trained.
        failures: why there is no result, by seed.
        evaluations: compiles that one training asked for, mean over the seeds that did not fail; None if all did.
        rows: by split, over all seeds that did not fail; empty if all did.
        by_seed: by split, for each of these seeds.
        best: greatest gain on the validation modules among the points of its task.
    """

    training: Training
    failures: Mapping[int, str]
    evaluations: float | None
    rows: Mapping[str, Row]
    by_seed: Mapping[str, Sequence[Row]]
    best: bool = False

    @property
    def measure(self) -> str:
        """Score that is compared, its ``compile.objective``."""
        objective: str = self.training.config["compile"]["objective"]
        return objective

    @property
    def label(self) -> str:
        """Task, learner and settings, for people."""
        one = self.training
        values = [f"{key} {value}" for key, value in one.settings.items()]
        return ", ".join(filter(None, [one.task, one.learner, *values]))

    def gain(self, split: str) -> float | None:
        """Gain of the geometric mean; None without modules, or if all seeds failed."""
        return self.rows[split].by(self.measure).geomean.value if self.rows else None


def read_points(folder: Path, sweep: Sweep, bootstrap: Bootstrap) -> list[Point]:
    """Read what every point has come to.

    Args:
        folder: with ``policies`` and ``results``.
        sweep: what was trained.
        bootstrap: makes the intervals.

    Raises:
        ArtifactError: a training or an evaluation has not been done, or a file is damaged.
    """
    found = [_point(folder, training, sweep.seeds, bootstrap) for training in sweep.points]
    best: dict[str, Point] = {}
    for one in found:
        if one.gain("validation") is not None:
            best[one.training.task] = max(best.get(one.training.task, one), one, key=_validation_gain)
    return [replace(one, best=best.get(one.training.task) is one) for one in found]


def point_records(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as plain values, gains in percent."""
    return [
        {
            "name": one.training.name,
            "task": one.training.task,
            "learner": one.training.learner,
            "settings": dict(one.training.settings),
            "measure": one.measure,
            "best_on_validation": one.best,
            "evaluations": one.evaluations,
            "failures": {str(seed): message for seed, message in one.failures.items()},
            **{split: _figures(one, split) for split in one.rows},
        }
        for one in points
    ]


def _point(folder: Path, training: Training, seeds: Sequence[int], bootstrap: Bootstrap) -> Point:
    failures: dict[int, str] = {}
    results, evaluations = [], []
    for seed in seeds:
        policy = str(PolicyName(training.name, seed))
        message = _failure(folder / "policies" / policy) or _failure(folder / "results" / policy)
        if message is not None:
            failures[seed] = message
            continue
        results += read_table(folder / "results" / policy / "results.parquet", RESULTS).to_pylist()
        evaluations.append(count_evaluations(folder / "policies", policy))
    point = Point(training, failures, sum(evaluations) / len(evaluations) if evaluations else None, {}, {})
    if not results:
        return point
    measured = gather_modules(list(policy_rows(results)), names=[point.measure])
    if not measured.asked.all():
        raise ArtifactError(
            f"the seeds of {training.name} were not evaluated on the same modules; delete data/sweep/results and run: "
            "make sweep"
        )
    places = [Place(split, ALL, measured.where(split=split)) for split in SPLITS]
    # The same draws for every point: points of one task are compared on the same modules.
    rows = compare_all(measured, places, bootstrap, lambda name, place, measure: ("sweep", place.split))
    of_split = {split: [row for row in rows if row.split == split] for split in SPLITS}
    whole = {split: of_split[split][-1] for split in SPLITS}
    return replace(point, rows=whole, by_seed={split: of_split[split][: len(measured.contenders)] for split in SPLITS})


def _failure(folder: Path) -> str | None:
    if not folder.exists():
        raise ArtifactError(f"{folder} is missing; make it with: make sweep")
    path = folder / FAILURE
    return read_json(path)["message"] if path.exists() else None


def _validation_gain(point: Point) -> float:
    gain = point.gain("validation")
    return float("-inf") if gain is None else gain


def _figures(point: Point, split: str) -> dict[str, Any]:
    one = point.rows[split].by(point.measure)
    return {
        "modules": one.num_compared,
        "failed": one.num_failed,
        "gain_percent": _percent(one.geomean.value),
        "low_percent": _percent(one.geomean.low),
        "high_percent": _percent(one.geomean.high),
        "total_gain_percent": _percent(one.total.value),
        "gain_percent_by_seed": {
            str(row.contender.seeds[0]): _percent(row.by(point.measure).geomean.value) for row in point.by_seed[split]
        },
        "wins": one.wins,
        "losses": one.losses,
        "verdict": one.verdict,
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100.0 * share, _DIGITS) + 0.0
