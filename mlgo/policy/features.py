"""Features brought to comparable size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign, log1p
from typing import Any

import numpy as np

CLIP = 5.0
"""Inputs of a network stay within plus and minus this."""


@dataclass(frozen=True)
class Normalisation:
    """Maps raw features to inputs of a network: ``clip((slog(x / unit) - centre) / scale)``.

    ``slog(x) = sign(x) log(1 + |x|)``, so numbers far above their unit count by their order of magnitude, and those
    far below are all alike.
    """

    features: tuple[str, ...]
    centre: np.ndarray  # float32 [num_features], as the others
    scale: np.ndarray  # above 0
    unit: np.ndarray | None = None  # powers of two, by which nothing is rounded; None where all are 1

    def __call__(self, values: Any, xp: Any = np) -> Any:
        """Normalise numbers ``[..., num_features]`` to ``float32 [..., num_features]`` within [-5, 5].

        ``xp`` is ``numpy`` or ``keras.ops``.
        """
        values = signed_log(values if self.unit is None else values / self.unit, xp)
        values -= self.centre
        values /= self.scale
        if xp is np:  # in place: a third less for one observation
            return np.maximum(np.minimum(values, CLIP, out=values), -CLIP, out=values)
        return xp.maximum(xp.minimum(values, CLIP), -CLIP)

    def of_numbers(self) -> Callable[[Sequence[float]], list[float]]:
        units = [1.0] * len(self.features) if self.unit is None else self.unit.tolist()
        scales = list(zip(units, self.centre.tolist(), self.scale.tolist(), strict=True))
        return lambda values: [_normalised(value, *scale) for value, scale in zip(values, scales, strict=True)]


@dataclass(frozen=True)
class Unscaled:
    """Features as the compiler sends them, for what compares them with thresholds."""

    features: tuple[str, ...]

    def __call__(self, values: Any, xp: Any = np) -> Any:
        return values

    def of_numbers(self) -> Callable[[Sequence[float]], list[float]]:
        return list


def signed_log(values: Any, xp: Any = np) -> Any:
    """``sign(x) log(1 + |x|)`` as float32, shape kept."""
    values = xp.array(values, np.float32)
    sizes = xp.log1p(xp.abs(values))
    return np.copysign(sizes, values) if xp is np else xp.sign(values) * sizes


def _normalised(value: float, unit: float, centre: float, scale: float) -> float:
    size = (copysign(log1p(abs(value / unit)), value) - centre) / scale
    return min(max(size, -CLIP), CLIP)
