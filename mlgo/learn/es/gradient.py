"""Search space and directions of a generation; from their rewards to a gradient, and to a step."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Coordinates:
    """Search coordinates around a start: weight = start + unit * coordinate, for the weights that vary."""

    start: np.ndarray  # float32 [num_params]
    varied: np.ndarray  # int64 [num_varied], positions of the weights that vary
    unit: np.ndarray  # float64 [num_varied], size of one unit

    @classmethod
    def last_layers(
        cls,
        start: np.ndarray,
        layers: list[slice],
        num_layers: int,
        unit: Literal["layer_rms", "weight"] = "layer_rms",
        epsilon: float = 0.0,
    ) -> "Coordinates":
        """Vary the last layers of float32 [num_params], in units of their root mean square or of each weight's size."""
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


_POWERS, _PER_DOUBLING = range(-40, 40), 4


@dataclass(frozen=True)
class FlipControl:
    """Measures noise by the share of known questions to which weights with it give another answer."""

    answers: Callable[[np.ndarray], np.ndarray]  # of weights, float32 [num_params], to the questions
    share: float  # that is wanted
    probes: int = 8  # noise that is measured

    def factor(self, coordinates: Coordinates, mean: np.ndarray, noise: np.ndarray) -> float:
        """By what to multiply noise, float64 [num, num_varied], so that it changes no more than the share of answers.

        It is the greatest power of the fourth root of 2 that does, so that rounding hardly ever shows in it.
        """
        expected = self.answers(coordinates.weights(mean))
        probes = np.concatenate([noise[: self.probes], -noise[: self.probes]])

        def is_too_much(power: int) -> bool:
            candidates = coordinates.weights(mean + 2.0 ** (power / _PER_DOUBLING) * probes)
            return bool(np.mean([self.answers(one) != expected for one in candidates]) > self.share)

        first = bisect_left(_POWERS, True, key=is_too_much)
        return float(2.0 ** ((_POWERS.start + first - 1) / _PER_DOUBLING))

    def equalised(self, coordinates: Coordinates, layers: Sequence[slice], rng: np.random.Generator) -> Coordinates:
        """The same coordinates in units by which each of the layers alone changes the share of answers."""
        unit, at_start = coordinates.unit.copy(), np.zeros_like(coordinates.unit)
        for layer in layers:
            within = (layer.start <= coordinates.varied) & (coordinates.varied < layer.stop)
            if within.any():
                noise = rng.standard_normal((self.probes, len(unit))) * within
                unit[within] *= self.factor(coordinates, at_start, noise)
        return replace(coordinates, unit=unit)


@dataclass(frozen=True)
class Directions:
    """Directions of a generation, float64 [pairs, num_params], each judged by two candidates.

    They are antithetic, ``mean + noise`` and ``mean - noise`` (Salimans et al. 2017), all pluses first. Rewards are
    float64 [num_candidates].
    """

    noise: np.ndarray

    @property
    def offsets(self) -> np.ndarray:
        """Candidates relative to the mean: float64 [num_candidates, num_params]."""
        return np.concatenate([self.noise, -self.noise])

    def usable(self, rewards: np.ndarray) -> np.ndarray:
        """Which directions have two finite rewards to compare, bool [pairs]."""
        return np.isfinite(rewards).reshape(2, -1).all(axis=0)

    def chosen(self, usable: np.ndarray, rewards: np.ndarray) -> tuple["Directions", np.ndarray]:
        """The usable directions, bool [pairs], with the rewards of their candidates."""
        return Directions(self.noise[usable]), rewards.reshape(2, -1)[:, usable].ravel()

    def rises(self, rewards: np.ndarray) -> np.ndarray:
        """Difference of rewards along each direction: float64 [pairs]."""
        plus, minus = rewards.reshape(2, -1)
        return plus - minus


_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class AdamState:
    """Number of updates so far, and the moments of the gradient, float64 [num_params] each."""

    count: int
    first: np.ndarray
    second: np.ndarray


def centred_ranks(rewards: np.ndarray) -> np.ndarray:
    """Ranks of finite rewards, float64 [num], from -0.5 to 0.5; ties share a rank, equal rewards give zeros."""
    if np.ptp(rewards) == 0.0:
        return np.zeros_like(rewards)
    _, position, counts = np.unique(rewards, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2  # 0-based, ties averaged
    return mean_rank[position] / (len(rewards) - 1) - 0.5


def monte_carlo(directions: Directions, shaped: np.ndarray, scale: float) -> np.ndarray:
    """Direction of growing reward, the average ``sum(rise noise) / (2 pairs scale^2)``: float64 [num_params].

    Salimans et al. 2017, "Evolution Strategies as a Scalable Alternative to Reinforcement Learning".
    """
    noise = directions.noise
    return directions.rises(shaped) @ noise / (2 * len(noise) * scale**2)


def signal_share(directions: Directions, shaped: np.ndarray) -> float:
    """Estimated share of the true gradient in the square of that of `monte_carlo`; the rest is noise of few pairs.

    In many dimensions it is about the squared cosine between both. Each pair gives a product of rise and noise; scalar
    products of two different ones have the true square as their mean.
    """
    products = directions.rises(shaped)[:, None] * directions.noise
    count, square = len(products), float((products.mean(axis=0) ** 2).sum()) if len(products) else 0.0
    if count < 2 or square == 0.0:
        return 0.0
    return max(0.0, (count - float((products**2).sum()) / (count * square)) / (count - 1))


def adam_step(state: AdamState, gradient: np.ndarray, step_size: float) -> tuple[np.ndarray, AdamState]:
    """One ascending step of Adam (Kingma and Ba 2015): the change, float64 [num_params], and the next state.

    A gradient of zeros is a generation that has shown nothing: nothing moves, and the state stays.
    """
    if not gradient.any():
        return np.zeros_like(gradient), state
    count = state.count + 1
    first = _BETA1 * state.first + (1 - _BETA1) * gradient
    second = _BETA2 * state.second + (1 - _BETA2) * gradient**2
    corrected = first / (1 - _BETA1**count), second / (1 - _BETA2**count)
    change = step_size * corrected[0] / (np.sqrt(corrected[1]) + _EPSILON)
    return change, AdamState(count, first, second)
