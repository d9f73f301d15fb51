"""Paired comparison of module sizes with a bootstrap interval and a sign test, and what may be said about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mlgo.core.seeding import generator

Verdict = Literal["smaller", "larger", "no difference shown"]

_BATCH_ELEMENTS = 1 << 20
"""Sizes that one batch of resamples draws at most; bounds memory to some 10 MB per array."""


MIN_MODULES = 6
"""Fewest modules that allow a verdict: 2 * 0.5 ** 6 < 0.05 <= 2 * 0.5 ** 5."""


@dataclass(frozen=True)
class Comparison:
    """One set of modules under a policy and under the baseline.

    Gains are shares of the baseline's size: 0.01 means one percent fewer bytes, negative means more bytes.

    Attributes:
        num_modules: modules compared.
        num_failed: modules left out: one of the two compiles failed, or one size is 0 and the other is not.
        wins: modules with fewer bytes under the policy.
        losses: modules with more bytes under the policy.
        ties: modules with equally many.
        worse_than_2_percent: modules that grow by more than 2 percent.
        policy_bytes: sum over the modules.
        baseline_bytes: sum over the modules.
        total: ``1 - sum(policy) / sum(baseline)``; None without modules.
        total_low: lower end of its interval; None for fewer than two modules.
        total_high: upper end.
        geomean: ``1 - exp(mean(log(policy / baseline)))``; None without modules.
        geomean_low: lower end of its interval; None for fewer than two modules.
        geomean_high: upper end.
    """

    num_modules: int
    num_failed: int
    wins: int
    losses: int
    ties: int
    worse_than_2_percent: int
    policy_bytes: int
    baseline_bytes: int
    total: float | None
    total_low: float | None
    total_high: float | None
    geomean: float | None
    geomean_low: float | None
    geomean_high: float | None

    @property
    def worse_share(self) -> float | None:
        """Share of the modules that grow by more than 2 percent; None without modules."""
        return self.worse_than_2_percent / self.num_modules if self.num_modules else None

    @property
    def sign_p(self) -> float | None:
        """Two-sided p-value of the exact sign test; None if no module's size differs.

        The probability that fair coins, one per module that is not a tie, fall at least as unevenly as wins and losses
        did (Dixon and Mood 1946). It knows nothing of how much the sizes differ.
        """
        from scipy.stats import binomtest  # here, since it is half of the time that `mlgo --help` would take

        differing = self.wins + self.losses
        return float(binomtest(self.wins, differing).pvalue) if differing else None


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made.

    Attributes:
        resamples: sets of modules drawn with replacement.
        confidence: coverage of the intervals, 0 to 1.
        seed: root seed of the draws.
    """

    resamples: int
    confidence: float
    seed: int

    def compare(
        self, policy: np.ndarray, baseline: np.ndarray, *names: str, groups: np.ndarray | None = None
    ) -> Comparison:
        """Compare with draws that depend on the seed and on the names of the comparison; see `compare`."""
        rng = generator(self.seed, "report", "bootstrap", *names)
        return compare(policy, baseline, rng, self.resamples, self.confidence, groups)

    def compare_seeds(
        self, policies: np.ndarray, baseline: np.ndarray, *names: str, groups: np.ndarray | None = None
    ) -> Comparison:
        """Compare with draws that depend on the seed and on the names of the comparison; see `compare_seeds`."""
        rng = generator(self.seed, "report", "bootstrap", *names)
        return compare_seeds(policies, baseline, rng, self.resamples, self.confidence, groups)


def compare(
    policy: np.ndarray,
    baseline: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
    groups: np.ndarray | None = None,
) -> Comparison:
    """Compare sizes module by module.

    The intervals are percentile intervals over resampled modules, so they tell how much the gain depends on which
    modules were looked at. An end never lies on the far side of the gain itself. What is compared can also be parts,
    such as functions, that belong to groups, such as modules. Then whole groups are resampled, since parts of one
    resemble each other.

    Args:
        policy: float64 [num_modules], bytes under the policy; NaN where the compile failed.
        baseline: float64 [num_modules], bytes under the baseline; NaN where the compile failed.
        rng: draws the resamples.
        resamples: number of resamples.
        confidence: coverage of the intervals, 0 to 1.
        groups: int64 [num_modules], number of the group that each belongs to; without it each is one of its own.
    """
    usable = np.isfinite(policy) & np.isfinite(baseline) & ((policy > 0) == (baseline > 0))
    num_failed = int((~usable).sum())
    policy, baseline = policy[usable], baseline[usable]
    logs = log_ratios(policy, baseline)
    num = len(policy)
    point = _gains(policy, baseline, logs) if num else None
    samples = [policy, baseline, logs]
    if groups is not None:
        samples = _sums_by_group([*samples, np.ones(num)], groups[usable])
    low, high = (
        (None, None) if point is None or len(samples[0]) < 2 else _interval(point, samples, rng, resamples, confidence)
    )
    return Comparison(
        num_modules=num,
        num_failed=num_failed,
        wins=int((policy < baseline).sum()),
        losses=int((policy > baseline).sum()),
        ties=int((policy == baseline).sum()),
        worse_than_2_percent=int((100 * policy > 102 * baseline).sum()),
        policy_bytes=int(policy.sum()),
        baseline_bytes=int(baseline.sum()),
        **_named(point, low, high),
    )


def compare_seeds(
    policies: np.ndarray,
    baseline: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
    groups: np.ndarray | None = None,
) -> Comparison:
    """Compare the policies of several training seeds, taken together, with the baseline.

    Gains are means of the seeds' gains. Wins, losses and ties are counted by the geometric mean of a module's sizes
    over the seeds; ``policy_bytes`` is the mean of the seeds' sums, rounded. A module counts only if it is usable under
    every seed. The intervals are percentile intervals over resampled seeds and resampled modules, both at a time: all
    drawn seeds see the same drawn modules, since they were evaluated on the same ones (Owen, "The pigeonhole
    bootstrap", Annals of Applied Statistics 1, 2007). With few seeds they are too narrow.

    Args:
        policies: float64 [num_seeds, num_modules], bytes under each seed's policy; NaN where the compile failed.
        baseline: float64 [num_modules], bytes under the baseline; NaN where the compile failed.
        rng: draws the resamples.
        resamples: number of resamples.
        confidence: coverage of the intervals, 0 to 1.
        groups: int64 [num_modules], whole groups are resampled instead of modules, see `compare`.
    """
    usable = np.all(np.isfinite(policies) & np.isfinite(baseline) & ((policies > 0) == (baseline > 0)), axis=0)
    policies, baseline = policies[:, usable], baseline[usable]
    num_seeds, num = policies.shape
    logs = log_ratios(policies, baseline)
    point = _gains(policies, baseline, logs).mean(axis=-1) if num else None
    samples = [*policies, baseline, *logs, np.ones(num)]
    if groups is not None:
        samples = _sums_by_group(samples, groups[usable])
    low, high = (
        (None, None)
        if point is None or len(samples[0]) < 2
        else _seed_interval(point, np.stack(samples), num_seeds, rng, resamples, confidence)
    )
    changes = np.round(logs.mean(axis=0), 12)  # opposite changes may cancel, but for rounding
    return Comparison(
        num_modules=num,
        num_failed=int((~usable).sum()),
        wins=int((changes < 0).sum()),
        losses=int((changes > 0).sum()),
        ties=int((changes == 0).sum()),
        worse_than_2_percent=int((changes > np.log(1.02)).sum()),
        policy_bytes=round(policies.sum() / num_seeds),
        baseline_bytes=int(baseline.sum()),
        **_named(point, low, high),
    )


def log_ratios(policy: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """``log(policy / baseline)`` of sizes [num_modules], both above 0 or both 0, which counts as equal."""
    return np.log(np.where(policy > 0, policy, 1.0) / np.where(baseline > 0, baseline, 1.0))


def verdict(comparison: Comparison) -> Verdict:
    """What the interval of the geometric mean allows to say: a direction only if all of it lies on one side of 0.

    With fewer than `MIN_MODULES` modules no direction is named: even if all of them went one way, a two-sided sign
    test would not call it significant at 5 %, and a percentile bootstrap of so few is too narrow.
    """
    if comparison.num_modules < MIN_MODULES:
        return "no difference shown"
    low, high = comparison.geomean_low, comparison.geomean_high
    if low is not None and low > 0.0:
        return "smaller"
    if high is not None and high < 0.0:
        return "larger"
    return "no difference shown"


def _sums_by_group(samples: Sequence[np.ndarray], groups: np.ndarray) -> list[np.ndarray]:
    """Sum samples [num_modules] over the groups that are there: float64 [num_groups] each."""
    numbers = np.unique(groups, return_inverse=True)[1]
    return [np.bincount(numbers, sample) for sample in samples]


def _gains(
    policy: np.ndarray, baseline: np.ndarray, logs: np.ndarray, counts: np.ndarray | None = None, axis: int = -1
) -> np.ndarray:
    """Both gains of sizes and log ratios [..., num_modules]: float64 [2, ...], total and geometric mean.

    With ``counts`` all are sums over groups, of so many modules each.
    """
    before, after = baseline.sum(axis=axis), policy.sum(axis=axis)
    share = np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)
    mean = logs.mean(axis=axis) if counts is None else logs.sum(axis=axis) / counts.sum(axis=axis)
    return np.stack([1.0 - share, 0.0 - np.expm1(mean)])  # 0 - x, as -x would make a negative zero


def _interval(
    point: np.ndarray,
    samples: Sequence[np.ndarray],
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals of both gains, each float64 [2]."""
    from scipy.stats import bootstrap

    result = bootstrap(
        samples,
        _gains,
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH_ELEMENTS // len(samples[0])),
        confidence_level=confidence,
        method="percentile",
        rng=rng,
    )
    interval = result.confidence_interval
    return np.minimum(interval.low, point), np.maximum(interval.high, point)


def _seed_interval(
    point: np.ndarray,
    samples: np.ndarray,
    num_seeds: int,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals of both gains over seeds and modules, each float64 [2].

    A resample is how often each module, or group of modules, and each seed was drawn, so sums over it are matrix
    products. The samples, float64 [2 * num_seeds + 2, num_drawn], are the sizes under each seed, those under the
    baseline, the log ratios of each seed, and numbers of modules.
    """
    policies, baseline = samples[:num_seeds], samples[num_seeds]
    logs, counts = samples[num_seeds + 1 : -1], samples[-1]
    num = len(baseline)
    drawn, batch = [], max(1, _BATCH_ELEMENTS // num)
    for start in range(0, resamples, batch):
        count = min(batch, resamples - start)
        modules = rng.multinomial(num, np.full(num, 1.0 / num), count).astype(np.float64)
        seeds = rng.multinomial(num_seeds, np.full(num_seeds, 1.0 / num_seeds), count) / num_seeds
        before, after = (modules @ baseline)[:, None], modules @ policies.T
        share = np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)
        mean_logs = modules @ logs.T / (modules @ counts)[:, None]
        gains = np.stack([1.0 - share, 0.0 - np.expm1(mean_logs)])  # [2, count, num_seeds]
        drawn.append((gains * seeds).sum(axis=-1))
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(np.concatenate(drawn, axis=1), [tail, 100.0 - tail], axis=1)
    return np.minimum(low, point), np.maximum(high, point)


def _named(point: np.ndarray | None, low: np.ndarray | None, high: np.ndarray | None) -> dict[str, float | None]:
    """Both gains and the ends of their intervals by the names of `Comparison`."""
    found: dict[str, float | None] = {}
    for suffix, values in (("", point), ("_low", low), ("_high", high)):
        for i, name in enumerate(("total", "geomean")):
            found[f"{name}{suffix}"] = None if values is None else float(values[i])
    return found
