"""The points of a sweep beside each other: what each gains, over its seeds, and what failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core.artifacts import RESULTS, read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.policy.stored import FAILURE
from mlgo.report.compare import Bootstrap, Comparison, verdict
from mlgo.report.measured import sizes
from mlgo.report.scoreboard import count_evaluations
from mlgo.sweep import Sweep, Training

SPLITS = ("validation", "test")
"""Splits that points are compared on, in the order in which they are shown."""

_DIGITS = 4


@dataclass(frozen=True)
class Measured:
    """What a point gains on one split.

    Attributes:
        comparison: with the heuristic, over all seeds that did not fail.
        by_seed: gain of the geometric mean for each of them; None without modules.
    """

    comparison: Comparison
    by_seed: Mapping[int, float | None]


@dataclass(frozen=True)
class PointResult:
    """One point of a sweep.

    Attributes:
        name: of its policies, before the seed.
        task: of ``sweep.tasks``; empty where there is none.
        learner: what was trained.
        settings: value of each swept setting that it reads.
        measure: score that is compared, its ``compile.objective``.
        failures: why there is no result, by seed.
        evaluations: compiles that one training asked for, mean over the seeds that did not fail; None if all did.
        by_split: by name of the split; empty if all seeds failed.
        best: greatest gain on the validation modules among the points of its task.
    """

    name: str
    task: str
    learner: str
    settings: Mapping[str, Any]
    measure: str
    failures: Mapping[int, str]
    evaluations: float | None
    by_split: Mapping[str, Measured]
    best: bool = False

    @property
    def label(self) -> str:
        """Task, learner and settings, for people."""
        values = [f"{key} {value}" for key, value in self.settings.items()]
        return ", ".join(filter(None, [self.task, self.learner, *values]))


def read_points(folder: Path, sweep: Sweep, bootstrap: Bootstrap) -> list[PointResult]:
    """Read what every point has come to.

    Args:
        folder: with ``policies`` and ``results``.
        sweep: what was trained.
        bootstrap: makes the intervals.

    Raises:
        ArtifactError: a training or an evaluation has not been done, or a file is damaged.
    """
    found = [_point(folder, point, sweep.seeds, bootstrap) for point in sweep.points]
    best: dict[str, PointResult] = {}
    for one in found:
        gain = _validation_gain(one)
        if gain > _validation_gain(best.get(one.task)):
            best[one.task] = one
    return [PointResult(**{**vars(one), "best": best.get(one.task) is one}) for one in found]


def point_records(points: list[PointResult]) -> list[dict[str, Any]]:
    """The points as plain values, gains in percent."""
    return [
        {
            "name": one.name,
            "task": one.task,
            "learner": one.learner,
            "settings": dict(one.settings),
            "measure": one.measure,
            "best_on_validation": one.best,
            "evaluations": one.evaluations,
            "failures": {str(seed): message for seed, message in one.failures.items()},
            **{split: _figures(measured) for split, measured in one.by_split.items()},
        }
        for one in points
    ]


def _point(folder: Path, point: Training, seeds: tuple[int, ...], bootstrap: Bootstrap) -> PointResult:
    failures: dict[int, str] = {}
    tables: dict[int, pa.Table] = {}
    evaluations = []
    for seed in seeds:
        policy = str(PolicyName(point.name, seed))
        message = _failure(folder / "policies" / policy) or _failure(folder / "results" / policy)
        if message is not None:
            failures[seed] = message
            continue
        tables[seed] = read_table(folder / "results" / policy / "results.parquet", RESULTS)
        evaluations.append(count_evaluations(folder / "policies", policy))
    measure = point.config["compile"]["objective"]
    return PointResult(
        point.name,
        point.task,
        point.learner,
        point.settings,
        measure,
        failures,
        sum(evaluations) / len(evaluations) if evaluations else None,
        {split: _measured(tables, split, measure, bootstrap, point.name) for split in SPLITS} if tables else {},
    )


def _failure(folder: Path) -> str | None:
    if not folder.exists():
        raise ArtifactError(f"{folder} is missing; make it with: make sweep")
    path = folder / FAILURE
    return read_json(path)["message"] if path.exists() else None


def _measured(tables: Mapping[int, pa.Table], split: str, measure: str, bootstrap: Bootstrap, name: str) -> Measured:
    keys = [("project", "ascending"), ("module", "ascending")]
    of_seeds = {seed: table.filter(pc.field("split") == split).sort_by(keys) for seed, table in tables.items()}
    first, *others = of_seeds.values()
    modules = first.select(["project", "module"])
    if any(one.select(["project", "module"]) != modules for one in others):
        raise ArtifactError(
            f"the seeds of {name} were not evaluated on the same modules; delete data/sweep/results and run: make sweep"
        )
    baseline = sizes(first, measure)[1]
    policies = {seed: sizes(table, measure)[0] for seed, table in of_seeds.items()}
    # The same draws for every point: points of one task are compared on the same modules.
    by_seed = {seed: bootstrap.compare(one, baseline, "sweep", split) for seed, one in policies.items()}
    comparison = (
        next(iter(by_seed.values()))
        if len(by_seed) == 1
        else bootstrap.compare_seeds(np.stack(list(policies.values())), baseline, "sweep", split)
    )
    return Measured(comparison, {seed: one.geomean for seed, one in by_seed.items()})


def _validation_gain(point: PointResult | None) -> float:
    gain = point.by_split["validation"].comparison.geomean if point is not None and point.by_split else None
    return float("-inf") if gain is None else gain


def _figures(measured: Measured) -> dict[str, Any]:
    one = measured.comparison
    return {
        "modules": one.num_modules,
        "failed": one.num_failed,
        **{
            f"{name}_percent": _percent(getattr(one, field))
            for name, field in (
                ("gain", "geomean"),
                ("low", "geomean_low"),
                ("high", "geomean_high"),
                ("total_gain", "total"),
            )
        },
        "gain_percent_by_seed": {str(seed): _percent(gain) for seed, gain in measured.by_seed.items()},
        "wins": one.wins,
        "losses": one.losses,
        "verdict": verdict(one),
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100.0 * share, _DIGITS) + 0.0
