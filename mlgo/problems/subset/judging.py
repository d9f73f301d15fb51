"""What sets of weights gain over the built-in heuristic."""

from collections.abc import Sequence

import numpy as np

from mlgo.core.measures import relative_reward
from mlgo.problems.subset.compiler import Compiled, Outcome
from mlgo.problems.subset.jobs import GreedyJob
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.stored import JudgedUnit, in_batches


def greedy_outcomes(
    pool: CsePool, policy: ChoicePolicy, weights: np.ndarray, units: Sequence[JudgedUnit]
) -> list[list[Outcome]]:
    """Units under the decisions of several sets of weights.

    Args:
        pool: compiles.
        policy: architecture and what is seen.
        weights: float32 [num_candidates, num_params].
        units: what is compiled.

    Returns:
        Of each unit one outcome for each candidate; none where its worker died.
    """
    found = pool.map([GreedyJob(names, policy, weights) for names in in_batches(units)])
    return [found.get(unit.name, []) for unit in units]


def rewards_of(outcomes: Sequence[Sequence[Outcome]], units: Sequence[JudgedUnit], num_candidates: int) -> np.ndarray:
    """Relative gains over the built-in heuristic.

    Args:
        outcomes: of each unit one for each candidate, or none.
        units: what was compiled.
        num_candidates: how many there are.

    Returns:
        float64 [num_candidates, num_units], NaN where a compile failed.
    """
    scores = np.full((num_candidates, len(units)), np.nan)
    for column, of_unit in enumerate(outcomes):
        for row, outcome in enumerate(of_unit):
            if isinstance(outcome, Compiled):
                scores[row, column] = outcome.score
    return relative_reward(scores, np.array([unit.heuristic for unit in units]))
