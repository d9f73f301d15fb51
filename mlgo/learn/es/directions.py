"""Search space: which weights vary in which units, and the directions of a generation with their candidates."""

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


@dataclass(frozen=True)
class Directions:
    """Directions of a generation with the candidates by which they are judged.

    Antithetic ones have two each, ``mean + noise`` and ``mean - noise`` (Salimans et al. 2017), all pluses first. Else
    each has ``mean + noise`` alone, and the mean itself comes last.

    Attributes:
        noise: float64 [pairs, num_params].
    """

    noise: np.ndarray
    antithetic: bool

    @property
    def span(self) -> int:
        """Distance between the compared candidates, in units of the noise."""
        return 2 if self.antithetic else 1

    @property
    def offsets(self) -> np.ndarray:
        """Candidates relative to the mean: float64 [num_candidates, num_params]."""
        return np.concatenate([self.noise, -self.noise if self.antithetic else np.zeros_like(self.noise[:1])])

    def usable(self, rewards: np.ndarray) -> np.ndarray:
        """Which directions have two finite rewards to compare, bool [pairs].

        Args:
            rewards: float64 [num_candidates], as in all methods.
        """
        plus, other = self._sides(np.isfinite(rewards))
        return plus & other

    def keep(self, usable: np.ndarray, rewards: np.ndarray) -> tuple["Directions", np.ndarray]:
        """Leave only the usable directions, bool [pairs], with the rewards of their candidates."""
        plus, other = self._sides(rewards)
        left = np.concatenate([plus[usable], other[usable] if self.antithetic else other])
        return Directions(self.noise[usable], self.antithetic), left

    def rises(self, rewards: np.ndarray) -> np.ndarray:
        """Difference of rewards along each direction: float64 [pairs]."""
        plus, other = self._sides(rewards)
        return plus - other

    def better(self, rewards: np.ndarray) -> np.ndarray:
        """Reward of the better candidate of each direction, or of its only one: float64 [pairs]."""
        plus, other = self._sides(rewards)
        return np.maximum(plus, other) if self.antithetic else plus

    def _sides(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values[: len(self.noise)], values[len(self.noise) :]
