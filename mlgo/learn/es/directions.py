"""Directions of a generation: the noise, the candidates along it, and how their rewards compare."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np


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


def perturb(
    rng: np.random.Generator, pairs: int, num_params: int, scale: float, orthogonal: bool = False
) -> np.ndarray:
    """Draw Gaussian noise with standard deviation ``scale``: ``float64 [pairs, num_params]``.

    Args:
        rng: source of the noise.
        pairs: directions.
        num_params: dimensions.
        scale: standard deviation of each number.
        orthogonal: make directions orthogonal to each other, in groups of ``num_params`` when there are more.
    """
    if not orthogonal:
        return scale * rng.standard_normal((pairs, num_params))
    sizes = [min(num_params, pairs - first) for first in range(0, pairs, num_params)]
    return scale * np.concatenate([_orthogonal_group(rng, size, num_params) for size in sizes])


def _orthogonal_group(rng: np.random.Generator, size: int, num_params: int) -> np.ndarray:
    """Orthogonal rows, each of them distributed as a standard Gaussian vector: ``[size, num_params]``.

    Choromanski et al. 2018, "Structured Evolution with Compact Architectures for Scalable Policy Optimization". The
    signs are those of Mezzadri 2007, "How to Generate Random Matrices from the Classical Compact Groups": without
    them, the directions that come out of a QR decomposition are not uniform.
    """
    basis, triangle = np.linalg.qr(rng.standard_normal((num_params, size)))
    lengths = np.sqrt(rng.chisquare(num_params, size))
    return (basis * (np.sign(np.diag(triangle)) * lengths)).T
