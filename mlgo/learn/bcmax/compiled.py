"""What the rounds want to know of the modules, by compiling them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mlgo.compiler.session import CompileResult
from mlgo.core.measures import get_measure
from mlgo.learn.bcmax.best import Trajectory
from mlgo.learn.bcmax.dataset import trajectories
from mlgo.policy.policy import Policy
from mlgo.rollout import CompileHost, CompileJob
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.episodes import Episode, compile_episodes
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.scored import ScoredModule, baselines
from mlgo.rollout.training import validation_rewards
from mlgo.tasks import Advisor


@dataclass
class CompiledRollouts:
    """Training and validation modules under policies; see `Rollouts`.

    Attributes:
        host: runs the compiles.
        learner: features and architecture of the policies.
        read: what a compile teaches: episodes of the module as a whole, or of its functions.
        train: modules to learn from.
        validation: modules to judge by.
        bitcode: file by module key.
        objective: which size counts, by the names of ``compile.objective``.
        quarantine: is told how every compile ended; modules in it are left out.
        explorers: ``(policy, round) -> advisors`` by name.
        num_episodes: compiles of training modules asked for, those of an earlier run included.
    """

    host: CompileHost
    learner: Policy
    read: Callable[[str, CompileResult], list[Episode]]
    train: Sequence[ScoredModule]
    validation: Sequence[ScoredModule]
    bitcode: Mapping[str, Path]
    objective: str
    quarantine: Quarantine
    explorers: Callable[[Policy, int], Mapping[str, Advisor]]
    num_episodes: int = 0
    _evaluator: CandidateEvaluator = field(init=False)

    def __post_init__(self) -> None:
        self._evaluator = CandidateEvaluator(self.host, self.learner, self.bitcode, self.objective, self.quarantine)

    @property
    def num_evaluations(self) -> int:
        """Compiles asked for so far."""
        return self.num_episodes + self._evaluator.num_evaluations

    def explore(self, weights: np.ndarray, number: int) -> Iterator[Trajectory]:
        """Training modules under what a round explores with."""
        for name, advisor in self.explorers(self.learner.with_weights(weights), number).items():
            yield from self._compile(f"{name} of round {number}", advisor)

    def measure(self, weights: np.ndarray) -> list[Trajectory]:
        """Training modules under a policy."""
        return self._compile("policy", self.learner.with_weights(weights))

    def validate(self, weights: np.ndarray) -> float:
        """Mean reward on the validation modules."""
        return float(validation_rewards(self._evaluator, weights, self.validation).mean())

    def _compile(self, source: str, advisor: Advisor) -> list[Trajectory]:
        chosen = [one for one in self.train if one.module.key not in self.quarantine]
        jobs = [
            CompileJob(key, self.bitcode[key], advisor, record=True, sha256=one.module.sha256)
            for one in chosen
            for key in [one.module.key]
        ]
        self.num_episodes += len(jobs)
        compiles = compile_episodes(self.host, jobs, self.read, source, self.quarantine.note)
        episodes = [one for each in compiles if each is not None for one in each]
        return trajectories(episodes, source, baselines(chosen, self.objective), get_measure(self.objective).offset)
