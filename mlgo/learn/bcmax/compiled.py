"""What the rounds want to know of the modules, by compiling them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mlgo.evaluate import CompileJob
from mlgo.evaluate.baseline_modules import ScoredModule, baselines
from mlgo.host.tasks.task import Advisor
from mlgo.learn.bcmax.best import Trajectory, trajectories
from mlgo.learn.context import Training
from mlgo.learn.modules import ModuleCompiles
from mlgo.objects.measures import Measure
from mlgo.policy.policy import Policy


@dataclass
class CompiledRollouts:
    """Training and validation modules under policies; failed compiles are left out.

    Attributes:
        training: runs the compiles.
        explorers: ``(policy, round) -> advisors`` by name.
        score: what counts.
        num_evaluations: compiles asked for so far, those of an earlier run included.
    """

    training: Training[ScoredModule]
    explorers: Callable[[Policy, int], Mapping[str, Advisor]]
    score: Measure
    num_evaluations: int = 0

    def explore(self, weights: np.ndarray, number: int) -> Iterator[Trajectory]:
        """Training modules under the references (round 0) or under variants of a policy, float32 [num_params]."""
        for name, advisor in self.explorers(self._compiles.policy.with_weights(weights), number).items():
            yield from self._compile(f"{name} of round {number}", advisor)

    def measure(self, weights: np.ndarray) -> list[Trajectory]:
        """Training modules under a policy, float32 [num_params]."""
        return self._compile("policy", self._compiles.policy.with_weights(weights))

    def validate(self, weights: np.ndarray) -> float:
        """Mean reward of a policy, float32 [num_params], on the validation modules."""
        self.num_evaluations += self.training.num_validation
        return float(self.training.validate(weights).mean())

    @property
    def _compiles(self) -> ModuleCompiles:
        assert isinstance(self.training.compiles, ModuleCompiles)
        return self.training.compiles

    def _compile(self, source: str, advisor: Advisor) -> list[Trajectory]:
        compiles, chosen = self._compiles, self._compiles.fit
        jobs = [
            CompileJob(key, compiles.bitcode[key], advisor, record=True, sha256=one.module.sha256)
            for one in chosen
            for key in [one.module.key]
        ]
        self.num_evaluations += len(jobs)
        found = compiles.recorded(jobs, compiles.read, source)
        episodes = [one for each in found if each is not None for one in each]
        return trajectories(episodes, source, baselines(chosen, self.score.name), self.score.offset)
