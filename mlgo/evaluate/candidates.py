"""Rewards of many candidate policies on some modules."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.quarantine import Quarantine
from mlgo.evaluate.scored import ScoredModule
from mlgo.objects.measures import get_measure
from mlgo.policy.policy import Policy


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
        scores = np.full((len(candidates), len(modules)), np.nan)
        reasons: dict[int, str] = {}
        for position, outcome in self._host.compile_each(self._jobs(candidates, modules)):
            scores.flat[position] = outcome.score(self._objective)
            if outcome.result is None:
                reasons[position] = outcome.reason
        self.num_evaluations += scores.size
        if self._quarantine is not None:
            for position in range(scores.size):  # not as they ended
                self._quarantine.note(modules[position % len(modules)].module.key, reasons.get(position, ""))
        baseline = np.array([one.score(self._objective) for one in modules])
        return get_measure(self._objective).reward(scores, baseline)

    def _jobs(self, candidates: np.ndarray, modules: Sequence[ScoredModule]) -> Iterator[CompileJob]:
        """All compiles, candidate by candidate, made as they are taken: a large generation is not in memory as such."""
        for weights in candidates:
            policy = self._policy.with_weights(weights)
            for one in modules:
                yield CompileJob(
                    one.module.key,
                    self._bitcode[one.module.key],
                    policy,
                    sha256=one.module.sha256,
                    costs_only=get_measure(self._objective).is_by_function,
                )
