"""All learners in one table: what they gain, and what that cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.experiments.compare import Gain
from mlgo.experiments.curves import count_evaluations
from mlgo.experiments.measured import ALL
from mlgo.learn.effort import Effort, effort_path, read_effort

PARTS = {ALL: "", "c++": " c++", "c": " c"}
"""Parts of a split, with what ``comparisons.json`` adds to the name of a policy."""


@dataclass(frozen=True)
class Entry:
    """One learner: means over its seeds.

    Attributes:
        learner: its name.
        seeds: of its policies, ascending.
        evaluations: compiles that one training asked for, validations included, as its history counts them.
        compiles: of all that a training asked for, repetitions after a stop included, those that no response tree held.
        seconds: wall time of one training.
        cores: workers of a training, each with its compiler on a core of its own.
        complete: whether compiles, seconds and cores are known of all sessions; else they are lower bounds.
        figures: what ``comparisons.json`` says of each of the `PARTS`, names without the measure; of ``linked`` means
            of the seeds' figures.
    """

    learner: str
    seeds: tuple[int, ...]
    evaluations: float
    compiles: float
    seconds: float
    cores: int
    complete: bool
    figures: Mapping[str, Mapping[str, Any]]

    @property
    def policies(self) -> list[str]:
        """Names of its policies, by seed."""
        return [str(PolicyName(self.learner, seed)) for seed in self.seeds]

    def gain(self, part: str = ALL, kind: str = "geomean") -> Gain:
        """A gain over the heuristic in percent.

        Args:
            part: one of the `PARTS`, or ``linked``.
            kind: ``geomean`` or ``total``.
        """
        return Gain(*(self.figures[part].get(f"{kind}_{end}_percent") for end in ("gain", "low", "high")))


def read_scoreboard(data: Path, split: str, measure: str) -> list[Entry]:
    """All learners of a finished run, the greatest gain first.

    Args:
        data: folder of the results.
        split: where the gain is measured, one of ``evaluate.splits``.
        measure: what is compared.

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
    for learner, seed in filter(None, map(PolicyName.find, found)):
        seeds.setdefault(learner, []).append(seed)
    if not seeds:
        raise ArtifactError(f"{path} names no policy; make it with: make scoreboard")
    entries = [_entry(data, found, learner, sorted(seeds[learner]), measure) for learner in seeds]
    return sorted(entries, key=lambda one: (-_or_lowest(one.gain().value), one.learner))


def training_command(entry: Entry, preset: Path) -> str:
    """The command that trains a learner's policies, on as many cores as it was measured with."""
    targets = " ".join(f"data/policies/{policy}/weights.npy" for policy in entry.policies)
    return f"snakemake --cores {entry.cores} {targets} --configfile {preset}"


def prefix_of(measure: str) -> str:
    """What names of figures in ``comparisons.json`` begin with."""
    return f"{measure.removesuffix('_bytes')}_"


def _entry(data: Path, found: Mapping[str, Any], learner: str, seeds: Sequence[int], measure: str) -> Entry:
    policies = [PolicyName(learner, seed) for seed in seeds]
    row = f"{learner}-mean" if len(seeds) > 1 else str(policies[0])
    if row not in found:
        raise ArtifactError(f"comparisons.json has no {row}; run the report stage again: {_stage('report')}")
    efforts = [_effort(data / "work", policy) for policy in policies]
    linked = [_figures(found[str(policy)], "linked_") for policy in policies]
    return Entry(
        learner=learner,
        seeds=tuple(seeds),
        evaluations=_mean([count_evaluations(data / "policies", str(policy)) for policy in policies]),
        compiles=_mean([effort.compiles for effort in efforts]),
        seconds=_mean([effort.seconds for effort in efforts]),
        cores=max(effort.workers for effort in efforts),
        complete=all(effort.complete for effort in efforts),
        figures={
            **{part: _figures(found.get(f"{row}{suffix}", {}), prefix_of(measure)) for part, suffix in PARTS.items()},
            "linked": {
                name: round(_mean([one[name] for one in linked]), 4)
                for name in linked[0]
                if all(name in one for one in linked)
            },
        },
    )


def _figures(record: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in record.items() if name.startswith(prefix)}


def _effort(work: Path, policy: PolicyName) -> Effort:
    path = effort_path(work, str(policy))
    if not path.exists():
        raise ArtifactError(
            f"{path} is missing, the training's wall time is not known; delete {work}/checkpoints/{policy}-* and train "
            f"again: {_stage(f'--forcerun train_{policy.learner}')}"
        )
    return read_effort(work, str(policy))


def _stage(target: str) -> str:
    return f"snakemake --cores all {target}, with the --configfile of the other results"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _or_lowest(gain: float | None) -> float:
    return float("-inf") if gain is None else gain
