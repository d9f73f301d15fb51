"""Paired comparison of module sizes with a bootstrap interval, and what may be said about it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import bootstrap

from mlgo.seeding import generator

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

    def compare(self, policy: np.ndarray, baseline: np.ndarray, *names: str) -> Comparison:
        """Compare with draws that depend on the seed and on the names of the comparison; see `compare`."""
        rng = generator(self.seed, "report", "bootstrap", *names)
        return compare(policy, baseline, rng, self.resamples, self.confidence)


def compare(
    policy: np.ndarray, baseline: np.ndarray, rng: np.random.Generator, resamples: int, confidence: float
) -> Comparison:
    """Compare sizes module by module.

    The intervals are percentile intervals over resampled modules, so they tell how much the gain depends on which
    modules were looked at. An end never lies on the far side of the gain itself.

    Args:
        policy: float64 [num_modules], bytes under the policy; NaN where the compile failed.
        baseline: float64 [num_modules], bytes under the baseline; NaN where the compile failed.
        rng: draws the resamples.
        resamples: number of resamples.
        confidence: coverage of the intervals, 0 to 1.
    """
    usable = np.isfinite(policy) & np.isfinite(baseline) & ((policy > 0) == (baseline > 0))
    num_failed = int((~usable).sum())
    policy, baseline = policy[usable], baseline[usable]
    logs = log_ratios(policy, baseline)
    num = len(policy)
    point = _gains(policy, baseline, logs) if num else None
    low, high = (
        (None, None)
        if point is None or num < 2
        else _interval(point, policy, baseline, logs, rng, resamples, confidence)
    )
    total, geomean = _pair(point)
    (total_low, geomean_low), (total_high, geomean_high) = _pair(low), _pair(high)
    return Comparison(
        num_modules=num,
        num_failed=num_failed,
        wins=int((policy < baseline).sum()),
        losses=int((policy > baseline).sum()),
        ties=int((policy == baseline).sum()),
        worse_than_2_percent=int((100 * policy > 102 * baseline).sum()),
        policy_bytes=int(policy.sum()),
        baseline_bytes=int(baseline.sum()),
        total=total,
        total_low=total_low,
        total_high=total_high,
        geomean=geomean,
        geomean_low=geomean_low,
        geomean_high=geomean_high,
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


def _gains(policy: np.ndarray, baseline: np.ndarray, logs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Both gains of sizes and log ratios [..., num_modules]: float64 [2, ...], total and geometric mean."""
    before, after = baseline.sum(axis=axis), policy.sum(axis=axis)
    share = np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)
    return np.stack([1.0 - share, 0.0 - np.expm1(logs.mean(axis=axis))])  # 0 - x, as -x would make a negative zero


def _interval(
    point: np.ndarray,
    policy: np.ndarray,
    baseline: np.ndarray,
    logs: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals of both gains, each float64 [2]."""
    result = bootstrap(
        (policy, baseline, logs),
        _gains,
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH_ELEMENTS // len(policy)),
        confidence_level=confidence,
        method="percentile",
        rng=rng,
    )
    interval = result.confidence_interval
    return np.minimum(interval.low, point), np.maximum(interval.high, point)


def _pair(values: np.ndarray | None) -> tuple[float | None, float | None]:
    return (None, None) if values is None else (float(values[0]), float(values[1]))
