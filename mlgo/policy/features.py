"""From raw features to the inputs of a network."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.core.errors import PolicyError

CLIP = 5.0
"""Inputs of a network stay within plus and minus this."""


@dataclass(frozen=True)
class Normalisation:
    """Maps raw features to inputs of a network: ``clip((slog(x / unit) - centre) / scale)``.

    ``slog(x) = sign(x) log(1 + |x|)``, so numbers far above their unit count by their order of magnitude, and those
    far below are all alike.

    Attributes:
        features: names in the order of the inputs.
        centre: float32 [num_features].
        scale: float32 [num_features], above 0.
        unit: float32 [num_features], powers of two, by which nothing is rounded; None where all are 1.
    """

    features: tuple[str, ...]
    centre: np.ndarray
    scale: np.ndarray
    unit: np.ndarray | None = None

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Normalise ``int64 or float32 [..., num_features]`` to ``float32 [..., num_features]`` within [-5, 5]."""
        values = signed_log(observations if self.unit is None else observations / self.unit)
        values -= self.centre
        values /= self.scale
        np.minimum(values, CLIP, out=values)  # twice as fast as np.clip on a single row
        return np.maximum(values, -CLIP, out=values)


def signed_log(values: np.ndarray) -> np.ndarray:
    """``sign(x) log(1 + |x|)`` as float32, shape kept."""
    values = values.astype(np.float32)
    return np.copysign(np.log1p(np.abs(values)), values)


def feature_columns(wanted: Sequence[str], offered: Sequence[str], what: str) -> np.ndarray:
    """Positions of a policy's features in what a compiler or a trace offers, int64 [num_wanted].

    Raises:
        PolicyError: naming the features that are missing.
    """
    check_features(wanted, offered, what)
    return np.array([offered.index(name) for name in wanted])


def check_features(wanted: Sequence[str], offered: Sequence[str], what: str) -> None:
    """Compare a policy's features with what a compiler or a trace offers.

    Raises:
        PolicyError: naming the features that are missing.
    """
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise PolicyError(
            f"{what} lacks {len(missing)} of the policy's features ({', '.join(missing[:5])}); "
            "it was trained for another task or LLVM version"
        )
