"""Trust region: a model of the reward around the mean, and the best step for which it can be trusted.

Choromanski et al. 2019, "Provably Robust Blackbox Optimization for Reinforcement Learning", fits the model to the
perturbed candidates by ridge regression. Acceptance and radius follow Conn, Gould and Toint 2000, "Trust-Region
Methods", algorithm 6.1.1; the step inside the radius follows Moré and Sorensen 1983, "Computing a Trust Region Step".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.learn.es.config import TrustRegionConfig
from mlgo.learn.es.regression import ridge

_TINY = 1e-12


@dataclass(frozen=True)
class TrustRegionState:
    """How far the model is trusted.

    Attributes:
        radius: longest step, Euclidean, in search coordinates.
    """

    radius: float


@dataclass(frozen=True)
class RewardModel:
    """``reward(mean + step) - reward(mean) = slope step + step curvature step / 2``.

    Attributes:
        slope: float64 [num_params].
        curvature: float64 [num_params] when it is diagonal, else symmetric [num_params, num_params].
    """

    slope: np.ndarray
    curvature: np.ndarray

    def improvement(self, step: np.ndarray) -> float:
        """Predicted rise of the reward after a step, float64 [num_params]."""
        bent = self.curvature @ step if self.curvature.ndim == 2 else self.curvature * step
        return float(self.slope @ step + step @ bent / 2)

    def best_step(self, radius: float) -> np.ndarray:
        """The step within the radius with the highest predicted reward: float64 [num_params]."""
        if self.curvature.ndim == 1:
            return _best_step_along_axes(self.slope, self.curvature, radius)
        values, axes = np.linalg.eigh(self.curvature)
        return axes @ _best_step_along_axes(axes.T @ self.slope, values, radius)


def fit_model(offsets: np.ndarray, rewards: np.ndarray, scale: float, config: TrustRegionConfig) -> RewardModel:
    """Fit the model to candidates by ridge regression, with an intercept that is not penalised.

    Args:
        offsets: float64 [num_candidates, num_params], relative to the mean.
        rewards: float64 [num_candidates], finite.
        scale: standard deviation of the offsets; the regression sees them divided by it.
        config: kind of model and penalty.
    """
    num_params = offsets.shape[1]
    row, column = _curvature_indices(config.model, num_params)
    unit = offsets / scale
    features = np.hstack([unit, unit[:, row] * unit[:, column] * np.where(row == column, 0.5, 1.0)])
    fitted = ridge(features - features.mean(axis=0), rewards - rewards.mean(), config.ridge_penalty)
    slope, products = fitted[:num_params] / scale, fitted[num_params:] / scale**2
    if config.model == "quadratic":
        curvature = np.zeros((num_params, num_params))
        curvature[row, column] = curvature[column, row] = products
        return RewardModel(slope, curvature)
    return RewardModel(slope, products if config.model == "diagonal" else np.zeros(num_params))


def trust_region_step(
    state: TrustRegionState, model: RewardModel, improvement: Callable[[np.ndarray], float], config: TrustRegionConfig
) -> tuple[np.ndarray, TrustRegionState, dict[str, Any]]:
    """Try the model's best step; keep it if it brings what was predicted.

    Args:
        state: where the search stands.
        model: of the reward around the mean.
        improvement: measured rise of the reward by a step; NaN when it cannot be told, which counts as a refusal.
        config: thresholds and factors.

    Returns:
        Change of the mean, float64 [num_params], zeros when it is refused; the next state; a record for the history.
    """
    step = model.best_step(state.radius)
    predicted = model.improvement(step)
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


def _curvature_indices(model: str, num_params: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the curvature that a kind of model has, the upper triangle at most."""
    if model == "quadratic":
        return np.triu_indices(num_params)
    axes = np.arange(num_params if model == "diagonal" else 0)
    return axes, axes


def _best_step_along_axes(slope: np.ndarray, values: np.ndarray, radius: float) -> np.ndarray:
    """Maximise ``slope s + values s^2 / 2`` for ``|s| <= radius``.

    The maximum is ``slope / (shift + floor - values)``, where ``floor`` is the highest value, 0 at least, and ``shift``
    is the number from 0 on that brings the length down to the radius. There is none when the step is short of the
    radius even without a shift: then it ends inside, or there is a further rise along the axis of the highest value,
    on which the slope says nothing (the hard case).
    """
    top = int(np.argmax(values))
    gaps = max(float(values[top]), 0.0) - values
    reach = float(np.linalg.norm(slope)) / radius  # a shift that is enough whatever the gaps are
    step = slope / (gaps + _TINY * reach) if reach > 0.0 else np.zeros_like(slope)
    if np.linalg.norm(step) > radius:
        from scipy.optimize import brentq

        def excess(share: float) -> float:
            return float(np.linalg.norm(slope / (gaps + share * reach))) / radius - 1.0

        return slope / (gaps + brentq(excess, _TINY, 2.0, xtol=1e-15) * reach)
    if values[top] > 0.0:
        others = np.delete(step, top)
        step[top] = np.sqrt(max(0.0, radius**2 - others @ others))
    return step
