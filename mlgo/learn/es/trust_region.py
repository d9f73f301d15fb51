"""Trust region: a linear model of the reward around the mean, and the best step for which it can be trusted.

Choromanski et al. 2019, "Provably Robust Blackbox Optimization for Reinforcement Learning", fits the model to the
perturbed candidates by ridge regression. Acceptance and radius follow Conn, Gould and Toint 2000, "Trust-Region
Methods", algorithm 6.1.1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.learn.es.config import TrustRegionConfig
from mlgo.learn.es.gradient import ridge


@dataclass(frozen=True)
class TrustRegionState:
    """Radius of the trusted region: the longest step, Euclidean, in search coordinates."""

    radius: float


def fit_slope(offsets: np.ndarray, rewards: np.ndarray, scale: float, penalty: float) -> np.ndarray:
    """Fit ``reward(mean + step) - reward(mean) = slope step`` by ridge regression, intercept unpenalised.

    Args:
        offsets: float64 [num_candidates, num_params], relative to the mean.
        rewards: float64 [num_candidates], finite.
        scale: standard deviation of the offsets; the regression sees them divided by it.
        penalty: of the regression.

    Returns:
        float64 [num_params].
    """
    unit = offsets / scale
    return ridge(unit - unit.mean(axis=0), rewards - rewards.mean(), penalty) / scale


def trust_region_step(
    state: TrustRegionState, slope: np.ndarray, improvement: Callable[[np.ndarray], float], config: TrustRegionConfig
) -> tuple[np.ndarray, TrustRegionState, dict[str, Any]]:
    """Try the longest trusted step along the slope; keep it if it brings what was predicted.

    Args:
        state: where the search stands.
        slope: float64 [num_params], see `fit_slope`.
        improvement: measured rise of the reward by a step; NaN when it is unknown, which counts as a refusal.
        config: thresholds and factors.

    Returns:
        Change of the mean, float64 [num_params], zeros when it is refused; the next state; a record for the history.
    """
    length = float(np.linalg.norm(slope))
    step = slope * (state.radius / length) if length > 0.0 else np.zeros_like(slope)
    predicted = float(slope @ step)
    record = {"trust_radius": state.radius, "predicted_gain": predicted, "actual_gain": None, "accepted": False}
    if not predicted > 0.0:  # equal rewards: the model is flat, and says nothing about its radius
        return np.zeros_like(step), state, record
    actual = improvement(step)
    ratio = actual / predicted if np.isfinite(actual) else -np.inf
    accepted = bool(ratio > config.accept_threshold)
    factor = 1.0
    if ratio < config.shrink_threshold:
        factor = config.shrink_factor
    elif ratio > config.grow_threshold:
        factor = config.grow_factor
    radius = min(max(factor * state.radius, config.min_radius), config.max_radius)
    record |= {"actual_gain": actual if np.isfinite(actual) else None, "accepted": accepted}
    return step if accepted else np.zeros_like(step), TrustRegionState(radius), record
