"""Advantages over other episodes of the same module or function.

Kool et al. 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!". Functions are allocated independently of each
other, so a compile with n functions is n episodes, each with a reward of its own: what learning hears of a decision is
not drowned by all others of the module.
"""

from collections.abc import Sequence

import numpy as np


def advantages_over_siblings(subjects: Sequence[str], rewards: np.ndarray, limit: float) -> np.ndarray:
    """Reward of each episode, less the mean of the others of its subject, in root mean squares of all that differ.

    Args:
        subjects: what each episode is an episode of.
        rewards: float64 [num_episodes].
        limit: advantages stay within plus and minus this.

    Returns:
        float64 [num_episodes]; 0 for an only episode, and where all of a subject came out alike.
    """
    _, of = np.unique(np.asarray(subjects), return_inverse=True)
    count, total = np.bincount(of)[of], np.bincount(of, rewards)[of]
    highest, lowest = np.full(len(of), -np.inf), np.full(len(of), np.inf)
    np.maximum.at(highest, of, rewards)
    np.minimum.at(lowest, of, rewards)
    differs = (highest > lowest)[of]
    advantages = np.where(differs, (count * rewards - total) / np.maximum(count - 1, 1), 0.0)
    return clipped(advantages, differs, limit)


def clipped(advantages: np.ndarray, differs: np.ndarray, limit: float) -> np.ndarray:
    """Advantages, float64 [num], in root mean squares of those that ``differs`` names, within the limit."""
    if not differs.any():
        return advantages
    found: np.ndarray = np.clip(advantages / np.sqrt(np.mean(advantages[differs] ** 2)), -limit, limit)
    return found
