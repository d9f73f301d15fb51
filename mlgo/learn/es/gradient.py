"""From rewards of perturbed candidates to a gradient."""

from typing import Literal

import numpy as np

from mlgo.learn.es.config import ESConfig
from mlgo.learn.es.directions import FiniteDifferences
from mlgo.learn.es.regression import lasso, least_squares, ridge


def estimate_gradient(directions: FiniteDifferences, rewards: np.ndarray, config: ESConfig) -> np.ndarray:
    """Direction of growing reward, ``float64 [num_params]``, by the method that the configuration names.

    Augmented random search scales rewards in its own way; the other methods see them shaped.

    Args:
        directions: those that are usable.
        rewards: float64 [num_candidates], finite, in the order of ``directions.offsets``.
        config: names the method and its options.
    """
    scale = config.perturbation
    if config.gradient == "ars":
        return augmented_random_search(directions, rewards, scale, config.top_directions)
    shaped = shape_rewards(rewards, config.shaping)
    if config.gradient == "monte_carlo":
        return monte_carlo(directions, shaped, scale)
    rises = directions.rises(shaped) / directions.span
    if config.gradient == "linear":
        return least_squares(directions.noise, rises)
    unit = directions.noise / scale
    if config.gradient == "lasso":
        return lasso(unit, rises, config.lasso_penalty) / scale
    return ridge(unit, rises, config.ridge_penalty) / scale


def shape_rewards(rewards: np.ndarray, shaping: Literal["rank", "zscore", "none"]) -> np.ndarray:
    """Make rewards comparable over generations.

    ``rank`` gives centred ranks from -0.5 to 0.5 (ties share their mean rank), ``zscore`` subtracts the mean and
    divides by the standard deviation; with both, equal rewards give zeros. ``none`` leaves them as they are.

    Args:
        rewards: float64 [num], finite.
        shaping: which of them.
    """
    if shaping == "none":
        return rewards
    if np.ptp(rewards) == 0.0:
        return np.zeros_like(rewards)
    if shaping == "zscore":
        return (rewards - rewards.mean()) / rewards.std()
    _, position, counts = np.unique(rewards, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2  # 0-based, ties averaged
    return mean_rank[position] / (len(rewards) - 1) - 0.5


def monte_carlo(directions: FiniteDifferences, shaped: np.ndarray, scale: float) -> np.ndarray:
    """Average over the noise, ``sum(rise noise) / (span pairs scale^2)``.

    Salimans et al. 2017, "Evolution Strategies as a Scalable Alternative to Reinforcement Learning".

    Args:
        directions: those that are usable.
        shaped: float64 [num_candidates].
        scale: standard deviation of the noise.

    Returns:
        float64 [num_params].
    """
    noise = directions.noise
    return directions.rises(shaped) @ noise / (directions.span * len(noise) * scale**2)


def augmented_random_search(
    directions: FiniteDifferences, rewards: np.ndarray, scale: float, top_directions: int
) -> np.ndarray:
    """Average over the directions with the best candidates, in units of the rewards' standard deviation.

    Mania et al. 2018, "Simple Random Search of Static Policies is Competitive for Reinforcement Learning", version
    V1-t: ``sum(rise noise / scale) / (num_used std(rewards used))``. Equal rewards give zeros.

    Args:
        directions: those that are usable.
        rewards: float64 [num_candidates], finite.
        scale: standard deviation of the noise.
        top_directions: how many are used, at most.

    Returns:
        float64 [num_params].
    """
    used = np.zeros(len(directions.noise), bool)
    used[np.argsort(-directions.better(rewards), kind="stable")[:top_directions]] = True
    top, used_rewards = directions.keep(used, rewards)
    if np.ptp(used_rewards) == 0.0:
        return np.zeros(directions.noise.shape[1])
    return top.rises(used_rewards) @ (top.noise / scale) / (len(top.noise) * used_rewards.std())
