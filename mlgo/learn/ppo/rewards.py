"""Rewards of modules that differ in how much there is to gain, made comparable."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

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

    Attributes:
        prior: how many episodes the moments of all are worth.
        every: moments over all episodes.
        modules: moments by module.
    """

    prior: float
    every: RunningMoments = RunningMoments()
    modules: dict[str, RunningMoments] = field(default_factory=dict)

    def including(self, modules: Sequence[str], rewards: Sequence[float]) -> "RewardScale":
        """The scale after more episodes.

        Args:
            modules: module of each episode.
            rewards: its relative reward.
        """
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
