"""Gradient ascent: Adam, and momentum."""

from dataclasses import dataclass

import numpy as np

from mlgo.learn.es.config import ESConfig

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class AdamState:
    """Moments of the gradient.

    Attributes:
        count: updates so far.
        first: float64 [num_params].
        second: float64 [num_params].
    """

    count: int
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def zeros(cls, num_params: int) -> "AdamState":
        """State before the first update."""
        return cls(0, np.zeros(num_params), np.zeros(num_params))


@dataclass(frozen=True)
class MomentumState:
    """What is left of earlier gradients.

    Attributes:
        velocity: float64 [num_params].
    """

    velocity: np.ndarray


def ascend(
    state: AdamState | MomentumState, gradient: np.ndarray, config: ESConfig
) -> tuple[np.ndarray, AdamState | MomentumState]:
    """Return the change of the parameters, ``float64 [num_params]``, and the next state.

    A gradient of zeros is a generation that has shown nothing: nothing moves, and the state stays.
    """
    if not gradient.any():
        return np.zeros_like(gradient), state
    if isinstance(state, AdamState):
        return adam_step(state, gradient, config.step_size)
    return momentum_step(state, gradient, config.step_size, config.momentum)


def adam_step(state: AdamState, gradient: np.ndarray, step_size: float) -> tuple[np.ndarray, AdamState]:
    """One step of Adam (Kingma and Ba 2015), ascending: the change, float64 [num_params] as the gradient."""
    count = state.count + 1
    first = _BETA1 * state.first + (1 - _BETA1) * gradient
    second = _BETA2 * state.second + (1 - _BETA2) * gradient**2
    corrected = first / (1 - _BETA1**count), second / (1 - _BETA2**count)
    change = step_size * corrected[0] / (np.sqrt(corrected[1]) + _EPSILON)
    return change, AdamState(count, first, second)


def momentum_step(
    state: MomentumState, gradient: np.ndarray, step_size: float, momentum: float
) -> tuple[np.ndarray, MomentumState]:
    """One step of stochastic gradient ascent with momentum (Polyak 1964); 0 makes it plain ascent.

    Args:
        state: velocity so far.
        gradient: float64 [num_params].
        step_size: factor of the velocity.
        momentum: share of the velocity that stays.

    Returns:
        The change, float64 [num_params], and the next state.
    """
    velocity = momentum * state.velocity + gradient
    return step_size * velocity, MomentumState(velocity)
