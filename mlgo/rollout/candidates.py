"""Rewards of many candidate policies on some modules."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlgo.policy.policy import Policy
from mlgo.rollout.compiles import CompileHost
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.scored import ScoredModule
from mlgo.tasks.reward import OFFSETS, relative_reward


class CandidateEvaluator:
    """Compiles modules under candidates and compares with the heuristic.

    Attributes:
        num_evaluations: candidates times modules so far.

    Args:
        host: runs the compiles.
        policy: gives features and architecture; its weights are replaced by the candidates'.
        bitcode: file by module key.
        objective: which score counts.
        quarantine: is told how every compile ended.
    """

    def __init__(
        self,
        host: CompileHost,
        policy: Policy,
        bitcode: Mapping[str, Path],
        objective: str,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._host, self._policy, self._bitcode, self._objective = host, policy, bitcode, objective
        self._quarantine = quarantine
        self.num_evaluations = 0

    def rewards(self, candidates: np.ndarray, modules: Sequence[ScoredModule]) -> np.ndarray:
        """Relative rewards of every candidate on every module.

        Args:
            candidates: float32 [num_candidates, num_params].
            modules: what to compile.

        Returns:
            float64 [num_candidates, num_modules], NaN where a compile failed.
        """
        jobs = [
            CompileJob(
                one.module.key,
                self._bitcode[one.module.key],
                policy,
                sha256=one.module.sha256,
                costs_only=self._objective == "spill_cost",
            )
            for policy in map(self._policy.with_weights, candidates)
            for one in modules
        ]
        outcomes = self._host.compile_all(jobs)
        self.num_evaluations += len(jobs)
        if self._quarantine is not None:
            for job, outcome in zip(jobs, outcomes, strict=True):
                self._quarantine.note(job.module, outcome)
        scores = np.array([outcome.score(self._objective) for outcome in outcomes]).reshape(
            len(candidates), len(modules)
        )
        baseline = np.array([float(getattr(one, self._objective)) for one in modules])
        return relative_reward(scores, baseline, OFFSETS.get(self._objective, 0.0))
