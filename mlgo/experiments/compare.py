"""The one comparison: gain over a baseline with its interval, counts, a sign test, and what may be said about it.

What is compared are scores of the same items, less is better: sizes of modules or projects, costs of functions,
whatever a problem's units are judged by.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from mlgo.core.seeding import generator

Verdict = Literal["smaller", "larger", "no difference shown"]

_BATCH_ELEMENTS = 1 << 20
"""Scores that one batch of resamples draws at most; bounds memory to some 10 MB per array."""

MIN_ITEMS = 6
"""Fewest items that allow a verdict: 2 * 0.5 ** 6 < 0.05 <= 2 * 0.5 ** 5."""


class Gain(NamedTuple):
    """A gain with its interval, as shares of the baseline: 0.01 means one percent less, negative means more.

    Attributes:
        value: the gain; None without items.
        low: lower end of the interval; None where fewer than two items, or groups, could be resampled.
        high: upper end.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Comparison:
    """One set of items under one contender, or under the seeds of a learner together, and under the baseline.

    Attributes:
        num_compared: items compared.
        num_failed: items left out: one of the scores is unknown, or one of them is 0 and the other is not.
        num_resampled: items, or groups of items, that the interval resamples.
        wins: items with a lower score.
        losses: items with a higher score.
        ties: items with an equal score.
        worse_than_2_percent: items whose score rises by more than 2 percent.
        policy_sum: sum of the scores over the items, mean over the seeds.
        baseline_sum: sum of the baseline's scores.
        best_sum: sum of the best known scores; None where they are not known.
        mean_change: arithmetic mean of ``policy / baseline - 1``; None without items.
        total: ``1 - policy_sum / baseline_sum``.
        geomean: ``1 - exp(mean(log(policy / baseline)))``.
        total_share: ``(baseline - policy) / (baseline - best)`` of the sums over the items with a best known score;
            None where that is not lower.
        geomean_share: the same of the sums of logarithms.
    """

    num_compared: int
    num_failed: int
    num_resampled: int
    wins: int
    losses: int
    ties: int
    worse_than_2_percent: int
    policy_sum: float
    baseline_sum: float
    best_sum: float | None
    mean_change: float | None
    total: Gain
    geomean: Gain
    total_share: float | None
    geomean_share: float | None

    @property
    def worse_share(self) -> float | None:
        """Share of the items whose score rises by more than 2 percent; None without items."""
        return self.worse_than_2_percent / self.num_compared if self.num_compared else None

    @property
    def sign_p(self) -> float | None:
        """Two-sided p-value of the exact sign test; None if no item's score differs.

        The probability that fair coins, one per item that is not a tie, fall at least as unevenly as wins and losses
        did (Dixon and Mood 1946). It knows nothing of how much the scores differ.
        """
        from scipy.stats import binomtest  # here, since it is half of the time that `mlgo --help` would take

        differing = self.wins + self.losses
        return float(binomtest(self.wins, differing).pvalue) if differing else None

    @property
    def verdict(self) -> Verdict:
        """What the interval of the geometric mean allows to say: a direction only if all of it is on one side of 0.

        With fewer than `MIN_ITEMS` resampled items no direction is named: even if all of them went one way, a two-sided
        sign test would not call it significant at 5 %, and a percentile bootstrap of so few is too narrow.
        """
        _, low, high = self.geomean
        if self.num_resampled >= MIN_ITEMS and low is not None and high is not None:
            if low > 0.0:
                return "smaller"
            if high < 0.0:
                return "larger"
        return "no difference shown"

    def record(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**vars(self), "total": self.total._asdict(), "geomean": self.geomean._asdict()} | {
            "sign_p": self.sign_p,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made.

    Attributes:
        resamples: sets of items drawn with replacement.
        confidence: coverage of the intervals, 0 to 1.
        seed: root seed of the draws.
    """

    resamples: int
    confidence: float
    seed: int

    def compare(
        self,
        policies: np.ndarray,
        baseline: np.ndarray,
        *names: str,
        groups: np.ndarray | None = None,
        best: np.ndarray | None = None,
    ) -> Comparison:
        """See `compare`; the draws depend on the seed and on the names of the comparison."""
        rng = generator(self.seed, "report", "bootstrap", *names)
        return compare(policies, baseline, rng, self.resamples, self.confidence, groups, best)


def compare(
    policies: np.ndarray,
    baseline: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
    groups: np.ndarray | None = None,
    best: np.ndarray | None = None,
) -> Comparison:
    """Compare scores item by item.

    The intervals are percentile intervals over resampled items, so they tell how much the gain depends on which items
    were looked at. An end never lies on the far side of the gain itself. Items such as functions can belong to groups
    such as modules. Then whole groups are resampled, since parts of one resemble each other.

    Of the policies of several training seeds, gains are means of the seeds' gains. Wins, losses and ties are counted by
    the geometric mean of an item's scores over the seeds. An item counts only if it is usable under every seed. The
    intervals are over resampled seeds and resampled items, both at a time: all drawn seeds see the same drawn items,
    since they were evaluated on the same ones (Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007).
    With few seeds they are too narrow.

    Args:
        policies: float64 [num_items], scores under one contender, or [num_seeds, num_items], under the policies of
            several seeds; NaN where unknown.
        baseline: float64 [num_items], scores under the baseline; NaN where unknown.
        rng: draws the resamples.
        resamples: number of resamples; 0 for no interval.
        confidence: coverage of the intervals, 0 to 1.
        groups: int64 [num_items], number of the group that each belongs to; without it each is one of its own.
        best: float64 [num_items], best known scores; NaN where there is none.
    """
    single, policies = policies.ndim == 1, np.atleast_2d(policies)
    usable = np.all(np.isfinite(policies) & np.isfinite(baseline) & ((policies > 0) == (baseline > 0)), axis=0)
    policies, baseline = policies[:, usable], baseline[usable]
    num_seeds, num = policies.shape
    logs = log_ratios(policies, baseline)
    parts = np.arange(num) if groups is None else np.unique(groups[usable], return_inverse=True)[1]
    # Sums over the items of a group: scores of each seed, those of the baseline, log ratios of each seed, counts.
    sums = np.stack([np.bincount(parts, row) for row in (*policies, baseline, *logs, np.ones(num))]) if num else None
    ends: list[Sequence[float | None]] = [(None, None)] * 3
    if sums is not None:
        ends[0] = point = _gains(np.ones((1, sums.shape[1])), sums, num_seeds).mean(axis=-1)[:, 0].tolist()
        if resamples and sums.shape[1] > 1:
            drawn = _drawn(sums, None if single else num_seeds, rng, resamples)
            low, high = percentile_interval(drawn, confidence)
            ends[1:] = np.minimum(low, point).tolist(), np.maximum(high, point).tolist()
    if single:
        better, worse, much_worse = policies < baseline, policies > baseline, 100 * policies > 102 * baseline
    else:
        changes = np.round(logs.mean(axis=0), 12)  # opposite changes may cancel, but for rounding
        better, worse, much_worse = changes < 0, changes > 0, changes > np.log(1.02)
    total, geomean = (Gain(*one) for one in zip(*ends, strict=True))
    with_best = np.zeros(num, bool) if best is None else np.isfinite(best[usable])
    least = np.full(num, np.nan) if best is None else best[usable]
    least_logs = log_ratios(least[with_best], baseline[with_best])
    before, after, lowest = (_mean_sum(np.atleast_2d(scores)[:, with_best]) for scores in (baseline, policies, least))
    return Comparison(
        num_compared=num,
        num_failed=int((~usable).sum()),
        num_resampled=0 if sums is None else sums.shape[1],
        wins=int(better.sum()),
        losses=int(worse.sum()),
        ties=num - int(better.sum()) - int(worse.sum()),
        worse_than_2_percent=int(much_worse.sum()),
        policy_sum=_mean_sum(policies),
        baseline_sum=math.fsum(baseline),
        best_sum=None if best is None else lowest,
        mean_change=float(np.mean(_ratios(policies, baseline) - 1.0)) if num else None,
        total=total,
        geomean=geomean,
        total_share=(before - after) / (before - lowest) if before > lowest else None,
        geomean_share=_mean_sum(logs[:, with_best]) / least_logs.sum() if least_logs.sum() < 0.0 else None,
    )


def log_ratios(policy: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """``log(policy / baseline)`` of scores float64 [..., num_items], both above 0 or both 0, which counts as equal."""
    return np.log(_ratios(policy, baseline))


def _ratios(policy: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    return np.where(policy > 0, policy, 1.0) / np.where(baseline > 0, baseline, 1.0)


def _gains(drawn: np.ndarray, sums: np.ndarray, num_seeds: int) -> np.ndarray:
    """Both gains of some resamples, float64 [2, num_resamples, num_seeds]: total and geometric mean.

    Args:
        drawn: float64 [num_resamples, num_groups], how often each group was drawn.
        sums: float64 [2 * num_seeds + 2, num_groups], see `compare`.
        num_seeds: policies that are taken together.
    """
    of_drawn = drawn @ sums.T
    after, before = of_drawn[:, :num_seeds], of_drawn[:, num_seeds, None]
    mean_logs = of_drawn[:, num_seeds + 1 : -1] / of_drawn[:, -1:]
    return np.stack(
        [1.0 - _ratios(after, before), 0.0 - np.expm1(mean_logs)]
    )  # 0 - x, as -x would make a negative zero


def _drawn(sums: np.ndarray, num_seeds: int | None, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """Both gains of each resample, float64 [2, resamples]; seeds are drawn, too, unless ``num_seeds`` is None."""
    num = sums.shape[1]
    found, batch = [], max(1, _BATCH_ELEMENTS // num)
    for start in range(0, resamples, batch):
        count = min(batch, resamples - start)
        if num_seeds is None:
            places = rng.integers(0, num, (count, num)) + num * np.arange(count)[:, None]
            times = np.bincount(places.ravel(), minlength=count * num).reshape(count, num)
            seeds = np.ones((count, 1))
        else:
            times = rng.multinomial(num, np.full(num, 1.0 / num), count)
            seeds = rng.multinomial(num_seeds, np.full(num_seeds, 1.0 / num_seeds), count) / num_seeds
        found.append((_gains(times.astype(np.float64), sums, num_seeds or 1) * seeds).sum(axis=-1))
    return np.concatenate(found, axis=1)


def percentile_interval(drawn: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, float64 [...], that leave equal shares of the resamples, float64 [..., num_resamples], outside."""
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(drawn, [tail, 100.0 - tail], axis=-1)
    return low, high


def _mean_sum(values: np.ndarray) -> float:
    """Sum over the items of values float64 [num_seeds, num_items], mean over the seeds, without loss of digits."""
    return math.fsum(math.fsum(of_seed) for of_seed in values) / len(values)
