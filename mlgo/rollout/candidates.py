"""Rewards of many candidate policies on some modules."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlgo.policy.network_policy import NetworkPolicy
from mlgo.rollout.compiles import CompileHost, CompileJob
from mlgo.rollout.scored import ScoredModule
from mlgo.tasks.reward import relative_reward


class CandidateEvaluator:
    """Compiles modules under candidates and compares with the heuristic.

    Attributes:
        num_compiles: compiles done so far.

    Args:
        host: runs the compiles.
        policy: gives features and architecture; its weights are replaced by the candidates'.
        bitcode: file by module key.
        objective: which size counts, ``text_bytes`` or ``exec_bytes``.
    """

    def __init__(self, host: CompileHost, policy: NetworkPolicy, bitcode: Mapping[str, Path], objective: str) -> None:
        self._host, self._policy, self._bitcode, self._objective = host, policy, bitcode, objective
        self.num_compiles = 0

    def rewards(self, candidates: np.ndarray, modules: Sequence[ScoredModule]) -> np.ndarray:
        """Relative rewards of every candidate on every module.

        Args:
            candidates: float32 [num_candidates, num_params].
            modules: what to compile.

        Returns:
            float64 [num_candidates, num_modules], NaN where a compile failed.
        """
        keys = [scored.module.key for scored in modules]
        jobs = [
            CompileJob(key, self._bitcode[key], self._policy.with_weights(candidate))
            for candidate in candidates
            for key in keys
        ]
        outcomes = self._host.compile_all(jobs)
        self.num_compiles += len(jobs)
        scores = np.array([outcome.score(self._objective) for outcome in outcomes]).reshape(len(candidates), len(keys))
        return relative_reward(scores, np.array([float(getattr(one, self._objective)) for one in modules]))
