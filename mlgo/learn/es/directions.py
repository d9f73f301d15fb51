"""Search space: which weights vary in which units, and the directions of a generation with their candidates."""

from dataclasses import dataclass
from typing import ClassVar, Literal

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
class Antithetic:
    """Two candidates for each direction, ``mean + noise`` and ``mean - noise`` (Salimans et al. 2017).

    Candidates are in the order of all pluses, then all minuses.

    Attributes:
        noise: float64 [pairs, num_params].
        span: distance between the compared candidates, in units of the noise.
    """

    noise: np.ndarray
    span: ClassVar[int] = 2

    @property
    def offsets(self) -> np.ndarray:
        """Candidates relative to the mean: float64 [2 pairs, num_params]."""
        return np.concatenate([self.noise, -self.noise])

    def usable(self, rewards: np.ndarray) -> np.ndarray:
        """Tell which directions have two finite rewards, bool [pairs]; a failed candidate drops its twin.

        Args:
            rewards: float64 [2 pairs].
        """
        return np.isfinite(rewards).reshape(2, -1).all(axis=0)

    def keep(self, usable: np.ndarray, rewards: np.ndarray) -> tuple["Antithetic", np.ndarray]:
        """Leave only the usable directions, bool [pairs], with their rewards, float64 [2 pairs]."""
        return Antithetic(self.noise[usable]), rewards[np.tile(usable, 2)]

    def rises(self, rewards: np.ndarray) -> np.ndarray:
        """Difference of rewards along each direction: float64 [pairs]."""
        return rewards[: len(self.noise)] - rewards[len(self.noise) :]

    def better(self, rewards: np.ndarray) -> np.ndarray:
        """Reward of the better candidate of each direction: float64 [pairs]."""
        return rewards.reshape(2, -1).max(axis=0)


@dataclass(frozen=True)
class Forward:
    """One candidate for each direction, ``mean + noise``, and the mean itself, which comes last.

    Attributes:
        noise: float64 [pairs, num_params].
        span: distance between the compared candidates, in units of the noise.
    """

    noise: np.ndarray
    span: ClassVar[int] = 1

    @property
    def offsets(self) -> np.ndarray:
        """Candidates relative to the mean: float64 [pairs + 1, num_params]."""
        return np.concatenate([self.noise, np.zeros((1, self.noise.shape[1]))])

    def usable(self, rewards: np.ndarray) -> np.ndarray:
        """Tell which directions have a finite reward, bool [pairs]; none has when the mean failed.

        Args:
            rewards: float64 [pairs + 1].
        """
        return np.isfinite(rewards[:-1]) & np.isfinite(rewards[-1])

    def keep(self, usable: np.ndarray, rewards: np.ndarray) -> tuple["Forward", np.ndarray]:
        """Leave only the usable directions, bool [pairs], with their rewards and the mean's, float64 [pairs + 1]."""
        return Forward(self.noise[usable]), rewards[np.append(usable, True)]

    def rises(self, rewards: np.ndarray) -> np.ndarray:
        """Difference of rewards along each direction: float64 [pairs]."""
        return rewards[:-1] - rewards[-1]

    def better(self, rewards: np.ndarray) -> np.ndarray:
        """Reward of each direction's candidate: float64 [pairs]."""
        return rewards[:-1]


FiniteDifferences = Antithetic | Forward

ESTIMATORS: dict[str, type[Antithetic] | type[Forward]] = {"antithetic": Antithetic, "forward": Forward}
"""By ``es.estimator``."""
