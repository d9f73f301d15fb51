"""Adam (Kingma and Ba 2015), ascending."""

from dataclasses import dataclass

import numpy as np

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


def adam_step(state: AdamState, gradient: np.ndarray, step_size: float) -> tuple[np.ndarray, AdamState]:
    """Return the change of the parameters, ``float64 [num_params]``, and the next state."""
    count = state.count + 1
    first = _BETA1 * state.first + (1 - _BETA1) * gradient
    second = _BETA2 * state.second + (1 - _BETA2) * gradient**2
    corrected = first / (1 - _BETA1**count), second / (1 - _BETA2**count)
    change = step_size * corrected[0] / (np.sqrt(corrected[1]) + _EPSILON)
    return change, AdamState(count, first, second)
