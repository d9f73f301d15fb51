"""All learners in one table: what they gain, and what that cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import MODULES, RESULTS, SCORES, SHIPPED_SIZES, read_table
from mlgo.base.config import Settings
from mlgo.base.files import read_array
from mlgo.base.names import PolicyName
from mlgo.base.registry import PROBLEMS, Kind
from mlgo.compare.inference import Bootstrap, Comparison
from mlgo.compare.modules import measured_modules
from mlgo.compare.scores import ALL, ComparisonRow, by_language, claims, compare, policies_on, whole
from mlgo.compare.shipped import measured_programs, shipped_totals
from mlgo.compare.trainings import check_seeds, count_evaluations
from mlgo.compare.units import read_units
from mlgo.errors import ArtifactError
from mlgo.learn.cost import PREFIXES, TrainingCost, cost_path, read_cost

HOMES: Mapping[Kind, str] = {"modules": "", "choices": "cse"}
"""Folder of a run beneath the folder of all results, by what was learnt on."""


@dataclass(frozen=True)
class Entry:
    """One learner: means over its seeds.

    Attributes:
        seeds: of its policies, ascending.
        evaluations: compiles that one training asked for, validations included, as its history counts them.
        compiles: of all that a training asked for, repetitions after a stop included, those that no decision tree held.
        seconds: wall time of one training.
        cores: workers of a training, each with its compiler on a core of its own.
        complete: whether compiles, seconds and cores are known of all sessions; else they are lower bounds.
        comparisons: over all seeds, by scope: all, c++, c; corrected for the learners of the table, scope by scope.
        ships: the same of the totals of linked files; None where nothing was linked.
    """

    learner: str
    seeds: tuple[int, ...]
    weights: int
    evaluations: float
    compiles: float
    seconds: float
    cores: int
    complete: bool
    comparisons: Mapping[str, Comparison]
    ships: Comparison | None = None
    split: str = ""

    @property
    def policies(self) -> list[str]:
        """Names of its policies, by seed."""
        return [str(PolicyName(self.learner, seed)) for seed in self.seeds]

    @property
    def whole(self) -> Comparison:
        """Over all modules or units."""
        return self.comparisons[ALL]

    @property
    def headline(self) -> Comparison:
        """What learners are ranked by: what ships, where something is linked."""
        return self.ships or self.whole


def read_scoreboard(data: Path, settings: Settings, split: str | None, measure: str) -> list[Entry]:
    """All learners of a finished run, the greatest gain by project first.

    Args:
        settings: configuration of the run; tells the task and how intervals are made.
        split: where the gain is measured, one of ``evaluate.splits``; None for the one that is judged.
    """
    kind = PROBLEMS.get(settings.value("task")).kind
    bootstrap = Bootstrap.of(settings)
    read = _module_rows if kind == "modules" else _unit_rows
    rows, shipped = read(data / HOMES[kind], settings.value("task"), split, measure, bootstrap)
    policies = dict.fromkeys(row.name for row in rows if len(row.contender.seeds) == 1)
    check_seeds(data / HOMES[kind] / "policies" / policy for policy in policies)
    ships = {row.contender.learner: row.by("total") for row in shipped}
    by_learner: dict[str, list[ComparisonRow]] = {}
    for row in claims(rows):
        by_learner.setdefault(row.contender.learner, []).append(row)
    entries = [_entry(data, kind, rows, ships.get(learner)) for learner, rows in by_learner.items()]
    return sorted(entries, key=lambda one: (-_or_lowest(one.headline.geomean.value), one.learner))


def training_command(entry: Entry, kind: Kind, preset: Path) -> str:
    """The command that trains a learner's policies, on as many cores as it was measured with."""
    folder = Path("data", HOMES[kind], "policies")
    targets = " ".join(f"{folder / policy}/weights.npy" for policy in entry.policies)
    return f"snakemake --cores {entry.cores} {targets} --configfile {preset}"


def _module_rows(
    folder: Path, task: str, split: str | None, measure: str, bootstrap: Bootstrap
) -> tuple[list[ComparisonRow], list[ComparisonRow]]:
    """Comparisons of modules, and those of linked files over all seeds of a learner."""
    path = folder / "evaluation" / "results.parquet"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make scoreboard")
    results = read_table(path, RESULTS)
    scores = read_table(folder / "baseline" / "scores.parquet", SCORES)
    measured = measured_modules(results, scores, read_table(folder / "corpus" / "modules.parquet", MODULES))
    split = split or measured.judged
    policies = policies_on(measured, split, measure)
    shipped = read_table(folder / "evaluation" / "shipped.parquet", SHIPPED_SIZES)
    programs = measured_programs(shipped, policies.contenders)
    totals = [row for row in claims(shipped_totals(programs, bootstrap)) if row.split == split]
    return compare(policies, by_language, bootstrap, family=lambda row: row.scope, split=split), totals


def _unit_rows(
    folder: Path, task: str, split: str | None, measure: str, bootstrap: Bootstrap
) -> tuple[list[ComparisonRow], list[ComparisonRow]]:
    """Comparisons of units; nothing is linked."""
    tables = sorted((folder / "evaluation").glob("*.parquet"))
    if not tables:
        raise ArtifactError(f"{folder / 'evaluation'} holds no results; run the pipeline: make")
    units = read_units(task, folder / "baseline", folder / "labels" / "labels.parquet", tables)
    split = split or units.judged
    measured = policies_on(units, split, "score")
    return compare(measured, whole, bootstrap, split=split), []


def _entry(data: Path, kind: Kind, rows: Sequence[ComparisonRow], ships: Comparison | None) -> Entry:
    """What the rows of a learner over all its seeds say, scope by scope."""
    comparisons = {row.scope: next(iter(row.comparisons.values())) for row in rows}
    seeds = tuple(sorted(next(row for row in rows if row.scope == ALL).contender.seeds))
    policies = [PolicyName(rows[0].contender.learner, seed) for seed in seeds]
    costs = [_cost(data / "work", policy, PREFIXES[kind]) for policy in policies]
    folder = data / HOMES[kind] / "policies"
    return Entry(
        learner=rows[0].contender.learner,
        seeds=seeds,
        weights=read_array(folder / str(policies[0]) / "weights.npy").size,
        evaluations=_mean([count_evaluations(folder, str(policy)) for policy in policies]),
        compiles=_mean([cost.compiles for cost in costs]),
        seconds=_mean([cost.seconds for cost in costs]),
        cores=max(cost.workers for cost in costs),
        complete=all(cost.complete for cost in costs),
        comparisons=comparisons,
        ships=ships,
        split=rows[0].split,
    )


def _cost(work: Path, policy: PolicyName, prefix: str) -> TrainingCost:
    path = cost_path(work, f"{prefix}{policy}")
    if not path.exists():
        raise ArtifactError(
            f"{path} is missing, the training's wall time is not known; delete {work}/checkpoints/{prefix}{policy}-* "
            f"and train again: snakemake --cores all --forcerun train_{policy.learner}, with the --configfile of the "
            "other results"
        )
    return read_cost(work, f"{prefix}{policy}")


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _or_lowest(gain: float | None) -> float:
    return float("-inf") if gain is None else gain
