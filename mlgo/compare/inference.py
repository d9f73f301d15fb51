"""All inference: gains over a baseline with intervals over projects and seeds, tests, and what may be said.

What is compared are scores of the same items, less is better: sizes of linked files, modules or projects, costs of
functions. Items belong to projects. Items of one project resemble each other, so a project is one observation. Each
step is written out in ``docs/statistics.md``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.config import EvaluateConfig, Settings
from mlgo.base.seeding import generator

Verdict = Literal["smaller", "larger", "no difference shown", "no verdict"]

MIN_PROJECTS = 6
"""Fewest projects that allow a verdict: if all go one way, a two-sided sign test says 2 * 0.5 ** 6 < 0.05."""

MUCH = 1.005
"""An item whose score exceeds so many times the baseline's is counted as larger by more than half a percent."""

STREAM = ("report", "bootstrap")
"""Name of the generator that draws all resamples, see `seeding.generator`."""

_BATCH_ELEMENTS = 1 << 20  # projects that one batch of resamples draws at most; bounds memory to some 10 MB per array
_MOST_EXACT = 32  # most differing projects of which all assignments of signs are counted; of more, some are drawn
_DIGITS = 14  # digits of logarithms that count: opposite changes of two seeds cancel, but for rounding


class Gain(NamedTuple):
    """A gain with its interval, as shares of the baseline: 0.01 means one percent less, negative means more.

    There is no value without items, and no interval where fewer than two projects could be resampled.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Tally(NamedTuple):
    """How many have a lower score than under the baseline, the same, and a higher one."""

    smaller: int = 0
    equal: int = 0
    larger: int = 0


Figures = dict[str, float | str | None]
"""Plain values by key, for JSON."""


def gain_keys(prefix: str, name: str) -> dict[str, str]:
    """Keys of a gain in percent with its interval, for `Comparison.figures`."""
    ends = {"gain": "value", "low": "low", "high": "high"}
    return {f"{prefix}{end}_percent": f"{name}.{part}%" for end, part in ends.items()}


def percent(share: float | None, digits: int = 4) -> float | None:
    """A share in percent, for JSON and CSV; what lies beyond the digits is noise and may differ between machines."""
    return None if share is None else round(100.0 * share, digits) + 0.0  # + 0.0 turns a negative zero into 0


def tally_keys(prefix: str, name: str) -> dict[str, str]:
    """Keys of a tally, for `Comparison.figures`: prefix and way of the change."""
    return {f"{prefix}{way}": f"{name}.{way}" for way in Tally._fields}


class Change(NamedTuple):
    """What changed, and by which share of the baseline: 0.01 means one percent more."""

    name: str
    share: float


@dataclass(frozen=True)
class Bootstrap:
    """How intervals and tests are made: sets of projects and seeds drawn with replacement, 0 for neither.

    ``confidence`` is the coverage of the intervals, 0 to 1; what is missing to 1 is the level of the tests.
    """

    resamples: int
    confidence: float
    seed: int

    @classmethod
    def of(cls, settings: Settings) -> "Bootstrap":
        """As a configuration says."""
        evaluate = settings.section("evaluate", EvaluateConfig)
        return cls(evaluate.resamples, evaluate.confidence, settings.value("seed"))


POINTS_ONLY = Bootstrap(0, 0.95, 0)
"""No intervals and no tests."""

DEFAULT = Bootstrap(10_000, 0.95, 0)
"""As ``config/config.yaml`` has it, for pages that read no configuration."""


@dataclass(frozen=True)
class Comparison:
    """Items of some projects under one contender, or under the seeds of a learner together, and under the baseline.

    What is said of an item or a project under several seeds is said of the mean of its log ratios over the seeds.
    """

    num_compared: int
    num_failed: int  # items left out: one of the scores is unknown, or one of them is 0 and the other is not
    num_seeds: int
    projects: Tally  # how many have a lower, equal and higher score; that of a project is the sum over its items
    items: Tally
    much_larger: int  # items whose score rises by more than half a percent, see `MUCH`
    worst_project: Change | None  # the project whose sum rises most, or falls least; None without items
    worst_item: Change | None
    policy_sum: float  # sum of the scores over the items, mean over the seeds
    baseline_sum: float
    best_sum: float | None  # sum of the best known scores; None where they are not known
    mean_change: float | None  # arithmetic mean of `policy / baseline - 1` over items and seeds; None without items
    total: Gain  # `1 - policy_sum / baseline_sum`
    total_bca: Gain  # the same gain, with the BCa interval of the same resamples, see `bca_shift`
    geomean: Gain  # `1 - exp(mean)` of the log ratios of the projects' sums, over projects and seeds
    median: Gain  # `1 - exp(median)` over the projects, of the means over the seeds
    # `(baseline - policy) / (baseline - best)` of the sums over the items with a best known score; None where that is
    # not lower.
    total_share: float | None
    geomean_share: float | None  # the same of the log ratios of the projects' sums
    sign_p: float | None  # two-sided p-value of the exact sign test, see `sign_test`; None where no project differs
    p: float | None  # two-sided p-value of `sign_flip_test` over projects; None where none was made
    corrected_p: float | None  # by Holm's correction for `num_tests` comparisons; None where no verdict is allowed
    num_tests: int  # comparisons that were corrected together; 0 where this is none of them
    level: float

    @property
    def num_projects(self) -> int:
        """Projects compared: what the intervals resample and the tests count."""
        return sum(self.projects)

    @property
    def num_items(self) -> int:
        """Items compared, and those left out."""
        return self.num_compared + self.num_failed

    @property
    def much_larger_share(self) -> float | None:
        """Share of the items whose score rises by more than half a percent; None without items."""
        return self.much_larger / self.num_compared if self.num_compared else None

    @property
    def verdict(self) -> Verdict:
        """What may be said of the geometric mean by project.

        A direction is named only if the interval is on one side of 0, so that other projects and other seeds would show
        it, and the corrected p-value is below the level, so that looking at several comparisons did not find it.
        """
        _, low, high = self.geomean
        if self.corrected_p is None or low is None or high is None:
            return "no verdict"
        if self.corrected_p < self.level and (low > 0.0 or high < 0.0):
            return "smaller" if low > 0.0 else "larger"
        return "no difference shown"

    @property
    def finding(self) -> str:
        """The verdict in words, or why there is none."""
        if self.num_projects < MIN_PROJECTS:
            projects = f"{self.num_projects} project{'' if self.num_projects == 1 else 's'}"
            return f"no verdict: {projects}, six are needed"
        return "no verdict: not tested here" if self.verdict == "no verdict" else self.verdict

    def figures(self, keys: Mapping[str, str]) -> Figures:
        """Some of it as plain values, for JSON.

        Args:
            keys: dotted name of each figure, by its key. Those of shares end in ``%``, those of p-values in ``~``: they
                are rounded, and left out where nothing is known.
        """
        found: Figures = {}
        for key, name in keys.items():
            value: Any = self
            for part in name.rstrip("%~").split("."):
                value = getattr(value, part, None)
            rounded = _ROUNDED.get(name[-1])
            if rounded is None or value is not None:
                found[key] = rounded(value) if rounded else value
        return found

    def record(self) -> Row:
        """All of it as plain values, for JSON."""
        plain = {name: one._asdict() if hasattr(one, "_asdict") else one for name, one in vars(self).items()}
        return {**plain, "num_projects": self.num_projects, "verdict": self.verdict}


_ROUNDED: Mapping[str, Callable[[float], float | None]] = {"%": percent, "~": lambda p: float(f"{p:.4g}")}


def compare_scores(
    policies: np.ndarray,
    baseline: np.ndarray,
    projects: np.ndarray,
    bootstrap: Bootstrap,
    names: Sequence[str],
    best: np.ndarray | None = None,
) -> Comparison:
    """Compare scores of items with those of the baseline, project by project.

    An item counts only if it is usable under every seed. Then scores are summed over the items of each project. The
    total weighs projects by their size, the geometric mean and the median count each once. Tested by itself, see
    `correct` for several.

    Args:
        policies: float64 [num_items] or [num_seeds, num_items]; NaN where unknown.
        baseline: float64 [num_items]; NaN where unknown.
        projects: [num_items], name or number of each item's project.
        names: of the items, for the worst of them.
        best: float64 [num_items], best known scores; NaN where there is none.
    """
    policies = np.atleast_2d(policies)
    usable = np.all(np.isfinite(policies) & np.isfinite(baseline) & ((policies > 0) == (baseline > 0)), axis=0)
    policies, baseline = policies[:, usable], baseline[usable]
    labels, number = np.unique(np.asarray(projects)[usable].astype(str), return_inverse=True)
    after, before = by_project(policies, number), by_project(baseline[None], number)[0]
    of_projects = np.round(log_ratios(after, before).mean(axis=0), _DIGITS)
    of_items = np.round(log_ratios(policies, baseline).mean(axis=0), _DIGITS)
    total, geomean, median, total_bca = gains(after, before, bootstrap)
    tested = bool(bootstrap.resamples) and len(before) > 0
    p = sign_flip_test(of_projects, bootstrap) if tested else None
    total_share, geomean_share = _shares(policies, baseline, number, best[usable]) if best is not None else (None, None)
    return Comparison(
        num_compared=len(baseline),
        num_failed=int((~usable).sum()),
        num_seeds=len(policies),
        projects=_tally(of_projects),
        items=_tally(of_items),
        much_larger=int((of_items > round(math.log(MUCH), _DIGITS)).sum()),
        worst_project=_worst(of_projects, labels),
        worst_item=_worst(of_items, np.asarray(names, object)[usable]),
        policy_sum=math.fsum(map(math.fsum, policies)) / len(policies),  # without loss of digits
        baseline_sum=math.fsum(baseline),
        best_sum=None if best is None else math.fsum(best[usable][np.isfinite(best[usable])]),
        mean_change=float(np.mean(_ratios(policies, baseline) - 1.0)) if len(baseline) else None,
        total=total,
        total_bca=total_bca,
        geomean=geomean,
        median=median,
        total_share=total_share,
        geomean_share=geomean_share,
        sign_p=sign_test(of_projects) if tested else None,
        p=p,
        corrected_p=p if len(before) >= MIN_PROJECTS else None,
        num_tests=int(tested and len(before) >= MIN_PROJECTS),
        level=round(1.0 - bootstrap.confidence, 12),  # 1 - 0.95 is a little more than 0.05
    )


def correct(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p-values of comparisons that stand together; those that allow no verdict are none of them."""
    p_values = [one.p for one in comparisons if one.corrected_p is not None and one.p is not None]
    adjusted = iter(holm(p_values))
    return [
        one if one.corrected_p is None else replace(one, corrected_p=next(adjusted), num_tests=len(p_values))
        for one in comparisons
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of any false claim among them stays below the level.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none may fall below one before it (Holm, "A
    simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979).
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(p) for p in adjusted]


def sign_test(changes: np.ndarray) -> float | None:
    """Two-sided p-value of the sign test (Dixon and Mood 1946), changes float64 [num_projects]; None if all are 0."""
    smaller, _, larger = _tally(changes)
    num = smaller + larger
    as_few = sum(math.comb(num, count) for count in range(min(smaller, larger) + 1))
    return min(1.0, 2 * as_few / 2**num) if num else None


def sign_flip_test(changes: np.ndarray, bootstrap: Bootstrap) -> float:
    """Two-sided p-value of the paired permutation test (Fisher 1935) for log ratios, float64 [num_projects].

    It is the share of assignments of signs whose sum is as far from 0. Beyond `_MOST_EXACT` projects these are drawn.
    """
    differing = changes[changes != 0.0]
    least = abs(math.fsum(differing)) * (1.0 - 1e-12) - 1e-15  # sums in another order differ by rounding
    if len(differing) <= _MOST_EXACT:
        first, second = (
            reduce(lambda sums, value: np.concatenate([sums - value, sums + value]), half, np.zeros(1))
            for half in np.array_split(differing, 2)
        )
        second.sort()
        above = len(second) - np.searchsorted(second, least - first, "left")
        below = np.searchsorted(second, -least - first, "right")
        return min(1.0, float((above + below).sum()) / 2.0 ** len(differing))
    rng = generator(bootstrap.seed, *STREAM, "signs")
    count, batch = 0, max(1, _BATCH_ELEMENTS // len(differing))
    for start in range(0, bootstrap.resamples, batch):
        shape = min(batch, bootstrap.resamples - start), len(differing)
        count += int((abs(rng.choice((-1.0, 1.0), shape) @ differing) >= least).sum())
    return (1 + count) / (1 + bootstrap.resamples)


def interval(
    drawn: np.ndarray, confidence: float, num_projects: int, bias: float = 0.0, acceleration: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, float64 [...], of the expanded percentile interval of resamples, float64 [..., num_resamples].

    Percentiles of resamples of few projects lie too close together: a resample spreads by ``(n - 1) / n`` of the
    variance, and that variance is itself an estimate. So the tail ``Phi(-sqrt(n / (n - 1)) * t)`` takes the place of
    2.5 %, with the quantile t of Student's distribution of n - 1 degrees of freedom (Hesterberg, "What Teachers Should
    Know About the Bootstrap", The American Statistician 69, 2015). With `bca_shift` it is the BCa interval.
    """
    special = distributions()
    t = special.stdtrit(num_projects - 1, 0.5 + confidence / 2.0)
    quantile = math.sqrt(num_projects / (num_projects - 1)) * t
    lower, upper = (bias + end / (1.0 - acceleration * end) for end in (bias - quantile, bias + quantile))
    percents = [100.0 * special.ndtr(lower), 100.0 - 100.0 * special.ndtr(-upper)]
    low, high = np.percentile(drawn, percents, axis=-1)
    return low, high


def distributions() -> Any:
    """The module `scipy.special`, to whose digits all results were written; where it is not installed, our own."""
    try:
        from scipy import special  # here, since it is half of the time that `mlgo --help` would take
    except ImportError:  # only extras bring it: it is a fifth of what the tool takes on the disk
        return OwnDistributions
    return special


class OwnDistributions:
    """Three functions of `scipy.special`, with at least 9 equal digits."""

    ndtr, ndtri = NormalDist().cdf, NormalDist().inv_cdf

    @staticmethod
    def stdtrit(degrees: int, p: float) -> float:
        """Quantile of Student's distribution, for p of at least 0.5.

        The probability of -t to t is a finite sum in ``theta = atan(t / sqrt(degrees))`` (Abramowitz and Stegun,
        "Handbook of Mathematical Functions", 26.7.3 and 26.7.4), which grows with theta; so bisection finds theta.
        """
        odd = degrees % 2
        ratios = np.arange(1 + odd, degrees - 2, 2.0)
        factors = np.cumprod(np.concatenate([np.ones(min(1, degrees - odd)), ratios / (ratios + 1.0)]))
        powers = odd + 2.0 * np.arange(len(factors))
        low, high = 0.0, math.pi / 2.0
        while low < (theta := (low + high) / 2.0) < high:
            found = math.sin(theta) * float(factors @ math.cos(theta) ** powers)
            is_low = ((theta + found) / (math.pi / 2.0) if odd else found) < 2.0 * p - 1.0
            low, high = (theta, high) if is_low else (low, theta)
        return math.sqrt(degrees) * math.tan(high)


def bca_shift(drawn: np.ndarray, point: float, left_out: np.ndarray) -> tuple[float, float]:
    """Bias and acceleration of resamples (Efron, "Better Bootstrap Confidence Intervals", 1987).

    ``drawn`` are gains of resamples, float64 [num_resamples]; ``left_out`` those without each project, [num_projects].
    """
    influence = left_out.mean() - left_out
    spread = float((influence**2).sum()) ** 1.5
    below = (np.mean(drawn < point) + np.mean(drawn <= point)) / 2.0
    bias = distributions().ndtri(np.clip(below, 0.5 / len(drawn), 1.0 - 0.5 / len(drawn)))
    return float(bias), float((influence**3).sum()) / (6.0 * spread) if spread else 0.0


def resampled(after: np.ndarray, before: np.ndarray, bootstrap: Bootstrap) -> np.ndarray:
    """Total, geometric mean and median over resampled projects and seeds, float64 [3, num_resamples]; see `gains`.

    All seeds see the same drawn projects (Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007).
    """
    (num_seeds, num), logs = after.shape, log_ratios(after, before)
    rng = generator(bootstrap.seed, *STREAM)
    seeds = rng.integers(0, num_seeds, (bootstrap.resamples, num_seeds))
    weights = np.stack([(seeds == seed).mean(axis=1) for seed in range(num_seeds)], axis=1)
    found, batch = [], max(1, _BATCH_ELEMENTS // num)
    for start in range(0, bootstrap.resamples, batch):
        part = weights[start : start + batch]
        drawn = rng.integers(0, num, (len(part), num))
        of_drawn = [np.take_along_axis(part @ values, drawn, axis=1) for values in (after, logs)]
        found.append(_points(of_drawn[0], before[drawn], of_drawn[1]))
    return np.concatenate(found, axis=1)


def gains(after: np.ndarray, before: np.ndarray, bootstrap: Bootstrap, less: np.ndarray | None = None) -> list[Gain]:
    """Total, geometric mean and median with their intervals, and the total with that of BCa.

    Ends lie on their own sides of the gain.

    Args:
        after: float64 [num_seeds, num_projects], scores.
        before: float64 [num_projects], scores of the baseline.
        less: float64 [num_seeds, num_projects], scores of another contender, whose gains are subtracted. A resample has
            the same projects and the same seeds of both.
    """
    if not len(before):
        return [Gain()] * 4
    sides = [after] if less is None else [after, less]
    means = [(one.mean(axis=0)[None], log_ratios(one, before).mean(axis=0)[None]) for one in sides]
    points = reduce(np.subtract, [_points(mean, before[None], logs)[:, 0] for mean, logs in means]).tolist()
    points += points[:1]
    if not bootstrap.resamples or len(before) < 2:
        return [Gain(point) for point in points]
    drawn = reduce(np.subtract, [resampled(one, before, bootstrap) for one in sides])
    left_out = reduce(np.subtract, [1.0 - _ratios(one.sum() - one, before.sum() - before) for (one,), _ in means])
    ends = np.transpose(interval(drawn, bootstrap.confidence, len(before))).tolist()
    shift = bca_shift(drawn[0], points[0], left_out)
    ends.append(list(map(float, interval(drawn[0], bootstrap.confidence, len(before), *shift))))
    return [Gain(point, min(low, point), max(high, point)) for point, (low, high) in zip(points, ends, strict=True)]


def by_project(scores: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Sums over the items of each project, float64 [num_seeds, num_projects].

    Args:
        scores: float64 [num_seeds, num_items].
        number: int64 [num_items], number of each item's project.
    """
    return np.stack([np.bincount(number, row) for row in scores]) if len(number) else np.zeros((len(scores), 0))


def log_ratios(policy: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """``log(policy / baseline)`` of scores float64 [..., num_items], both above 0 or both 0, which counts as equal."""
    return np.log(_ratios(policy, baseline))


def _ratios(policy: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    return np.where(policy > 0, policy, 1.0) / np.where(baseline > 0, baseline, 1.0)


def _points(after: np.ndarray, before: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Total, geometric mean and median of samples of projects, float64 [3, num_samples]."""
    ratio = np.log(_ratios(after.sum(axis=1), before.sum(axis=1)))
    # 0 - x, as -x would make a negative zero
    return 0.0 - np.expm1(np.stack([ratio, logs.mean(axis=1), np.median(logs, axis=1)]))


def _tally(changes: np.ndarray) -> Tally:
    return Tally(int((changes < 0).sum()), int((changes == 0).sum()), int((changes > 0).sum()))


def _worst(changes: np.ndarray, names: np.ndarray) -> Change | None:
    return Change(str(names[changes.argmax()]), float(np.expm1(changes.max()))) if len(changes) else None


def _shares(
    policies: np.ndarray, baseline: np.ndarray, number: np.ndarray, best: np.ndarray
) -> tuple[float | None, float | None]:
    """Shares of what the best known scores gain, in total and by project; None where they gain nothing."""
    known = np.isfinite(best)
    if not known.any():
        return None, None
    parts = np.unique(number[known], return_inverse=True)[1]
    after = by_project(policies[:, known], parts)
    before, least = by_project(np.stack([baseline, best])[:, known], parts)
    saved, possible = before.sum() - after.sum() / len(after), before.sum() - least.sum()
    logs, least_logs = log_ratios(after, before).sum() / len(after), log_ratios(least, before).sum()
    return (float(saved / possible) if possible > 0.0 else None, float(logs / least_logs) if least_logs < 0.0 else None)
