"""All learners in one table: what they gain, and what that cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.learn.effort import Effort, effort_path, read_effort
from mlgo.report.curves import read_curves


@dataclass(frozen=True)
class Gain:
    """A gain over the heuristic, in percent of its size.

    Attributes:
        percent: the gain; None without modules.
        low: lower end of its interval; None for fewer than two modules.
        high: upper end.
    """

    percent: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Standing:
    """One learner: means over its seeds.

    Attributes:
        learner: its name.
        seeds: of its policies, ascending.
        evaluations: compiles that one training asked for, validations included, as its history counts them.
        compiles: of all that a training asked for, repetitions after a stop included, those that no decision tree held.
        seconds: wall time of one training.
        cores: workers of a training, each with its compiler on a core of its own.
        complete: whether compiles, seconds and cores are known of all sessions; else they are lower bounds.
        geomean: gain of the geometric mean over modules, its interval over modules and seeds.
        total: gain in the sum of all modules.
        cpp: geometric mean of C++ modules.
        c: geometric mean of C modules.
        linked: gain in the sum of all linked projects; the ends are means of the seeds' interval ends.
        worse_share_percent: modules that grow by more than 2 %, their size averaged over the seeds.
        wins: modules that get smaller, likewise.
        losses: modules that get larger.
        sign_p: two-sided p-value of the sign test on them; None if no module differs.
        verdict: what may be said of the geometric mean.
    """

    learner: str
    seeds: tuple[int, ...]
    evaluations: float
    compiles: float
    seconds: float
    cores: int
    complete: bool
    geomean: Gain
    total: Gain
    cpp: Gain
    c: Gain
    linked: Gain
    worse_share_percent: float | None
    wins: int
    losses: int
    sign_p: float | None
    verdict: str

    @property
    def policies(self) -> list[str]:
        """Names of its policies, by seed."""
        return [str(PolicyName(self.learner, seed)) for seed in self.seeds]


def read_standings(data: Path, split: str, measure: str) -> list[Standing]:
    """All learners of a finished run, the greatest gain first.

    Args:
        data: folder of the results.
        split: where the gain is measured, one of ``evaluate.splits``.
        measure: ``text_bytes`` or ``exec_bytes``.

    Raises:
        ArtifactError: a file is missing, or not of this version; names it and what makes it.
    """
    path = data / "report" / "comparisons.json"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make scoreboard")
    comparisons = read_json(path)
    if split not in comparisons:
        raise ArtifactError(f"{path} holds nothing about the {split} projects; add {split} to evaluate.splits")
    found = comparisons[split]
    seeds: dict[str, list[int]] = {}
    for name in found:
        if policy := PolicyName.find(name):
            seeds.setdefault(policy.learner, []).append(policy.seed)
    if not seeds:
        raise ArtifactError(f"{path} names no policy; make it with: make scoreboard")
    standings = [_standing(data, found, learner, sorted(seeds[learner]), measure) for learner in seeds]
    return sorted(standings, key=lambda one: (-_or_lowest(one.geomean.percent), one.learner))


def training_command(standing: Standing, preset: Path) -> str:
    """The command that trains a learner's policies, on as many cores as it was measured with."""
    targets = " ".join(f"data/policies/{policy}/weights.npy" for policy in standing.policies)
    return f"snakemake --cores {standing.cores} {targets} --configfile {preset}"


def count_evaluations(policies: Path, policy: str) -> float:
    """Compiles that a training asked for, by the last line of its history.

    Raises:
        ArtifactError: the history is missing, or of an earlier version.
    """
    path = policies / policy / "history.csv"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; run the train stage: {_stage('train')}")
    (curve,) = read_curves(policies, [policy])
    counts = [count for count in curve.columns.get("evaluations", []) if count is not None]
    if not counts:
        raise ArtifactError(
            f"{path} has no evaluations, an earlier version wrote it; delete {path.parent}, train again"
        )
    return counts[-1]


def _standing(data: Path, found: Mapping[str, Any], learner: str, seeds: Sequence[int], measure: str) -> Standing:
    policies = [str(PolicyName(learner, seed)) for seed in seeds]
    row = f"{learner}-mean" if len(seeds) > 1 else policies[0]
    if row not in found:
        raise ArtifactError(f"comparisons.json has no {row}; run the report stage again: {_stage('report')}")
    efforts = [_effort(data / "work", policy) for policy in policies]
    kind, figures = measure.removesuffix("_bytes"), found[row]
    return Standing(
        learner=learner,
        seeds=tuple(seeds),
        evaluations=_mean([count_evaluations(data / "policies", policy) for policy in policies]),
        compiles=_mean([effort.compiles for effort in efforts]),
        seconds=_mean([effort.seconds for effort in efforts]),
        cores=max(effort.workers for effort in efforts),
        complete=all(effort.complete for effort in efforts),
        geomean=_gain(figures, f"{kind}_geomean"),
        total=_gain(figures, f"{kind}_total"),
        cpp=_gain(found.get(f"{row} c++", {}), f"{kind}_geomean"),
        c=_gain(found.get(f"{row} c", {}), f"{kind}_geomean"),
        linked=_mean_gain([_gain(found[policy], "linked_total") for policy in policies]),
        worse_share_percent=figures.get(f"{kind}_worse_share_percent"),
        wins=figures[f"{kind}_wins"],
        losses=figures[f"{kind}_losses"],
        sign_p=figures.get(f"{kind}_sign_p"),
        verdict=figures[f"{kind}_verdict"],
    )


def _effort(work: Path, policy: str) -> Effort:
    path = effort_path(work, policy)
    if not path.exists():
        learner = PolicyName.of(policy).learner
        raise ArtifactError(
            f"{path} is missing, the training's wall time is not known; delete {work}/checkpoints/{policy}-* and train "
            f"again: {_stage(f'--forcerun train_{learner}')}"
        )
    return read_effort(work, policy)


def _stage(target: str) -> str:
    return f"snakemake --cores all {target}, with the --configfile of the other results"


def _gain(figures: Mapping[str, Any], prefix: str) -> Gain:
    return Gain(*(figures.get(f"{prefix}_{name}_percent") for name in ("gain", "low", "high")))


def _mean_gain(gains: Sequence[Gain]) -> Gain:
    """Means of gains and of interval ends; None where any seed has none."""

    def mean(name: str) -> float | None:
        values = [getattr(one, name) for one in gains]
        return None if None in values else round(_mean(values), 4)

    return Gain(mean("percent"), mean("low"), mean("high"))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _or_lowest(gain: float | None) -> float:
    return float("-inf") if gain is None else gain
