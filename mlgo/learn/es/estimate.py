"""From rewards of perturbed candidates to a gradient.

Salimans et al. 2017, "Evolution Strategies as a Scalable Alternative to Reinforcement Learning": antithetic
sampling and rank shaping.
"""

from typing import Literal

import numpy as np


def perturb(rng: np.random.Generator, pairs: int, num_params: int, scale: float) -> np.ndarray:
    """Draw Gaussian noise with standard deviation ``scale``: ``float64 [pairs, num_params]``."""
    return scale * rng.standard_normal((pairs, num_params))


def antithetic(mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Candidates ``mean + noise`` followed by ``mean - noise``: ``[2 pairs, num_params]``."""
    return np.concatenate([mean + noise, mean - noise])


def successful_pairs(rewards: np.ndarray) -> np.ndarray:
    """Tell which pairs have two finite rewards; a failed candidate drops its twin.

    Args:
        rewards: float64 [2 pairs], in the order of `antithetic`.

    Returns:
        bool [pairs].
    """
    return np.isfinite(rewards).reshape(2, -1).all(axis=0)


def shape_rewards(rewards: np.ndarray, shaping: Literal["rank", "zscore"]) -> np.ndarray:
    """Make rewards comparable over generations.

    ``rank`` gives centred ranks from -0.5 to 0.5 (ties share their mean rank), ``zscore`` subtracts the mean and
    divides by the standard deviation. Equal rewards give zeros.

    Args:
        rewards: float64 [num], finite.
        shaping: which of the two.
    """
    if np.ptp(rewards) == 0.0:
        return np.zeros_like(rewards)
    if shaping == "zscore":
        return (rewards - rewards.mean()) / rewards.std()
    _, position, counts = np.unique(rewards, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2  # 0-based, ties averaged
    return mean_rank[position] / (len(rewards) - 1) - 0.5


def gradient(noise: np.ndarray, shaped: np.ndarray, scale: float) -> np.ndarray:
    """Antithetic estimate ``sum((f+ - f-) noise) / (2 pairs scale^2)``.

    Args:
        noise: float64 [pairs, num_params].
        shaped: float64 [2 pairs], in the order of `antithetic`.
        scale: standard deviation of the noise.

    Returns:
        float64 [num_params], direction of growing reward.
    """
    pairs = len(noise)
    difference = shaped[:pairs] - shaped[pairs:]
    return difference @ noise / (2 * pairs * scale**2)
