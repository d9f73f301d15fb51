"""The one relative reward."""

import numpy as np

FAILED_REWARD = -1.0
"""What a module that fails to compile counts in a validation: as if it had doubled in size."""

OFFSETS = {"spill_cost": 1.0}
"""Added to scores of an objective before they are compared. Many modules have next to no spills; without the cost of
one store, executed once, on top, a copy more or less would count as a hundred percent."""


def relative_reward(score: np.ndarray, baseline: np.ndarray, offset: float = 0.0) -> np.ndarray:
    """Gain over the baseline: ``1 - score / baseline``; 0.01 means one percent less.

    With an offset it is ``-log((score + offset) / (baseline + offset))``, next to the same for small changes. Scores
    that need an offset can be a multiple of their baseline, and one such module would outweigh all others in a mean;
    the mean of logarithms is what the geometric mean of a report is made of.

    Args:
        score: float64 [...], raw cost under the policy; NaN where the compile failed.
        baseline: float64 [...], raw cost under the built-in heuristic; above 0 without an offset.
        offset: added to both, see `OFFSETS`.

    Returns:
        float64 [...], NaN where ``score`` is.
    """
    if not offset:
        return 1.0 - score / baseline
    return -np.log((score + offset) / (baseline + offset))
