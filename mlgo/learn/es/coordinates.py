"""Search coordinates: which weights vary, and in which units."""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Coordinates:
    """Search coordinates around a start: weight = start + unit * coordinate, for the weights that vary.

    Attributes:
        start: float32 [num_params].
        varied: int64 [num_varied], positions of the weights that vary.
        unit: float64 [num_varied], size of one unit.
    """

    start: np.ndarray
    varied: np.ndarray
    unit: np.ndarray

    @classmethod
    def last_layers(
        cls,
        start: np.ndarray,
        layers: list[slice],
        num_layers: int,
        unit: Literal["layer_rms", "weight"] = "layer_rms",
        epsilon: float = 0.0,
    ) -> "Coordinates":
        """Vary the last layers.

        Args:
            start: float32 [num_params].
            layers: part of the weights that belongs to each layer.
            num_layers: how many of the last are varied.
            unit: ``layer_rms`` is the root mean square weight of each layer, ``weight`` is ``|weight| + epsilon``.
            epsilon: added with ``weight``, so that a weight of 0 varies too.
        """
        chosen = layers[-num_layers:]
        varied = np.concatenate([np.arange(part.start, part.stop) for part in chosen])
        if unit == "weight":
            return cls(start, varied, np.abs(start[varied].astype(np.float64)) + epsilon)
        units = [np.full(part.stop - part.start, np.sqrt(np.mean(start[part] ** 2))) for part in chosen]
        return cls(start, varied, np.concatenate(units).astype(np.float64))

    def weights(self, points: np.ndarray) -> np.ndarray:
        """Map ``[..., num_varied]`` to weights ``float32 [..., num_params]``."""
        weights = np.broadcast_to(self.start, (*points.shape[:-1], self.start.size)).copy()
        weights[..., self.varied] += (self.unit * points).astype(np.float32)
        return weights
