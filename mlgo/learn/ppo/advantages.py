"""Advantages of answers: over a value network, over other episodes, and by the sizes of a decision's functions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from mlgo.errors import ConfigError
from mlgo.learn.base import Trajectory, side_by_side

_SMALLEST_DEVIATION = 1e-8


@dataclass(frozen=True)
class RunningMoments:
    """Count, mean and sum of squared deviations of a stream of numbers (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def including(self, value: float) -> "RunningMoments":
        """The moments with one number more."""
        count = self.count + 1
        mean = self.mean + (value - self.mean) / count
        return RunningMoments(count, mean, self.squares + (value - self.mean) * (value - mean))

    @property
    def variance(self) -> float:
        """Mean squared deviation; 0 without numbers."""
        return self.squares / self.count if self.count else 0.0


@dataclass(frozen=True)
class RewardScale:
    """Running mean and deviation of the rewards, of each module and of all.

    One percent is much for one module and nothing for another. A reward enters the advantages as
    ``(reward - mean) / deviation`` of its module. A module with few episodes borrows from all: mean and variance are
    averages of its own, weighted by its number of episodes, and those of all episodes, weighted by ``prior``.
    """

    prior: float
    every: RunningMoments = RunningMoments()
    modules: dict[str, RunningMoments] = field(default_factory=dict)

    def including(self, modules: Sequence[str], rewards: Sequence[float]) -> "RewardScale":
        """The scale after more episodes, given by their modules and relative rewards."""
        every, own = self.every, dict(self.modules)
        for module, reward in zip(modules, rewards, strict=True):
            every = every.including(reward)
            own[module] = own.get(module, RunningMoments()).including(reward)
        return RewardScale(self.prior, every, own)

    def normalise(self, module: str, reward: float) -> float:
        """A reward in deviations from what is usual for its module."""
        own = self.modules.get(module, RunningMoments())
        share = own.count / (own.count + self.prior)
        mean = share * own.mean + (1.0 - share) * self.every.mean
        variance = share * own.variance + (1.0 - share) * self.every.variance
        return (reward - mean) / max(sqrt(variance), _SMALLEST_DEVIATION)


def terminal_advantages(values: np.ndarray, reward: float, gamma: float, gae_lambda: float) -> np.ndarray:
    """Advantages of an episode whose only reward comes at its end, float64 [num_steps].

    ``A_t = d_t + gamma lambda A_(t+1)``, ``d_t = r_t + gamma V_(t+1) - V_t``; nothing follows the last step. With gamma
    and lambda 1 this is ``reward - V_t``.
    """
    advantages = np.empty(len(values))
    advantage, received, following = 0.0, reward, 0.0
    for step in reversed(range(len(values))):
        surprise = received + gamma * following - values[step]
        advantage = surprise + gamma * gae_lambda * advantage
        advantages[step] = advantage
        received, following = 0.0, float(values[step])
    return advantages


def advantages_over_siblings(subjects: Sequence[str], rewards: np.ndarray, limit: float) -> np.ndarray:
    """Reward of each episode, less the mean of the others of its subject, in root mean squares of all that differ.

    float64 [num_episodes]; 0 for an only episode, and where all of a subject came out alike.
    """
    _, of = np.unique(np.asarray(subjects), return_inverse=True)
    count, total = np.bincount(of)[of], np.bincount(of, rewards)[of]
    highest, lowest = np.full(len(of), -np.inf), np.full(len(of), np.inf)
    np.maximum.at(highest, of, rewards)
    np.minimum.at(lowest, of, rewards)
    differs = (highest > lowest)[of]
    advantages = np.where(differs, (count * rewards - total) / np.maximum(count - 1, 1), 0.0)
    return clipped(advantages, differs, limit)


def clipped(advantages: np.ndarray, differs: np.ndarray, limit: float) -> np.ndarray:
    """Advantages, float64 [num], in root mean squares of those that ``differs`` names, within the limit."""
    if not differs.any():
        return advantages
    return np.clip(advantages / np.sqrt(np.mean(advantages[differs] ** 2)), -limit, limit)


def advantages_of_functions(episodes: Sequence[Trajectory], limit: float) -> np.ndarray:
    """Bytes that a decision's two functions are smaller than in the other episodes, in root mean squares of the module.

    Then divided by the module's number of questions, and multiplied by the mean number: so each module weighs as much,
    and one with thousands of questions does not outweigh dozens of small ones.

    float64 [num_questions] of all episodes, one after another; 0 where the two came out alike in all.
    """
    of_each: dict[str, list[int]] = {}
    for number, one in enumerate(episodes):
        if one.credit is None:
            raise ConfigError("ppo.baseline functions: the compiles do not tell their functions; choose siblings")
        of_each.setdefault(one.key, []).append(number)
    found = [np.zeros(0)] * len(episodes)
    for numbers in of_each.values():
        functions = side_by_side([episodes[number].credit for number in numbers])
        grown = _over_others(functions.sizes, functions.present)
        saved = _over_others(functions.gone, functions.asked)
        smaller = [
            -(grown[row, functions.callers[row]] + saved[row, functions.callees[row]]) for row in range(len(numbers))
        ]
        joined = np.concatenate(smaller)
        advantages = clipped(joined, joined != 0.0, limit) / max(1, len(joined))
        parts = np.split(advantages, np.cumsum([len(part) for part in smaller])[:-1])
        for number, part in zip(numbers, parts, strict=True):
            found[number] = part
    every = np.concatenate([np.zeros(0), *found])
    return every * (len(every) / max(1, len(of_each)))


def _over_others(values: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """Each value less the mean of the others of its column; 0 for an only one, and where there is none."""
    count = holds.sum(axis=0)
    total = np.where(holds, values, 0.0).sum(axis=0)
    return np.where(holds & (count > 1), (count * values - total) / np.maximum(count - 1, 1), 0.0)
