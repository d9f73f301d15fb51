"""What sets of weights gain over the built-in heuristic."""

from collections.abc import Sequence

import numpy as np

from mlgo.core.measures import FAILED_REWARD, relative_reward
from mlgo.problems.subset.compiler import Compiled
from mlgo.problems.subset.jobs import GreedyJob
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.stored import JudgedUnit, in_batches


def greedy_rewards(pool: CsePool, policy: ChoicePolicy, weights: np.ndarray, units: Sequence[JudgedUnit]) -> np.ndarray:
    """Relative gains of units under the decisions of several sets of weights.

    Args:
        pool: compiles.
        policy: architecture and what is seen.
        weights: float32 [num_candidates, num_params].
        units: what is compiled.

    Returns:
        float64 [num_candidates, num_units], NaN where a compile failed.
    """
    found = pool.map([GreedyJob(names, policy, weights) for names in in_batches(units)])
    scores = np.full((len(weights), len(units)), np.nan)
    for column, unit in enumerate(units):
        for row, outcome in enumerate(found.get(unit.name, [])):
            if isinstance(outcome, Compiled):
                scores[row, column] = outcome.score
    return relative_reward(scores, np.array([unit.heuristic for unit in units]))


def validation_rewards(
    pool: CsePool, policy: ChoicePolicy, weights: np.ndarray, units: Sequence[JudgedUnit]
) -> np.ndarray:
    """The same, with `measures.FAILED_REWARD` where a compile failed: who breaks units must not look better."""
    return np.nan_to_num(greedy_rewards(pool, policy, weights, units), nan=FAILED_REWARD)
