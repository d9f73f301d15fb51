"""The one relative reward."""

import numpy as np


def relative_reward(score: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Gain over the baseline: ``1 - score / baseline``; 0.01 means one percent smaller.

    Args:
        score: float64 [...], raw cost under the policy; NaN where the compile failed.
        baseline: float64 [...], raw cost under the built-in heuristic, above 0.

    Returns:
        float64 [...], NaN where ``score`` is.
    """
    return 1.0 - score / baseline
