"""Rewards of many candidate policies on some modules."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlgo.corpus.store import Module
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.rollout.compiles import CompileHost, CompileJob
from mlgo.tasks.reward import relative_reward


class CandidateEvaluator:
    """Compiles modules under candidates and compares with the heuristic.

    Attributes:
        num_compiles: compiles done so far.

    Args:
        host: runs the compiles.
        policy: gives features and architecture; its weights are replaced by the candidates'.
        bitcode: file by module key.
        baseline: heuristic's score in bytes by module key.
        objective: which size counts.
    """

    def __init__(
        self,
        host: CompileHost,
        policy: NetworkPolicy,
        bitcode: Mapping[str, Path],
        baseline: Mapping[str, float],
        objective: str,
    ) -> None:
        self._host, self._policy, self._bitcode = host, policy, bitcode
        self._baseline, self._objective = baseline, objective
        self.num_compiles = 0

    def rewards(self, candidates: np.ndarray, modules: Sequence[Module], label: str = "") -> np.ndarray:
        """Relative rewards of every candidate on every module.

        Args:
            candidates: float32 [num_candidates, num_params].
            modules: what to compile.
            label: title of the progress bar; no bar without one.

        Returns:
            float64 [num_candidates, num_modules], NaN where a compile failed.
        """
        advisors = [self._policy.with_weights(candidate) for candidate in candidates]
        jobs = [CompileJob(module.key, self._bitcode[module.key], advisor) for advisor in advisors for module in modules]
        outcomes = self._host.compile_all(jobs, label)
        self.num_compiles += len(jobs)
        scores = np.array([outcome.score(self._objective) for outcome in outcomes]).reshape(len(advisors), len(modules))
        return relative_reward(scores, np.array([self._baseline[module.key] for module in modules]))
