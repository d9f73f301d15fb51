"""Gains by hand, and what must hold for any sizes."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.experiments.inference import Bootstrap, Comparison, Gain, compare, percentile_interval

SIZES = st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=25)


def compared(policy, baseline, resamples=150, confidence=0.95, seed=0) -> Comparison:
    rng = np.random.default_rng(seed)
    return compare(np.array(policy, np.float64), np.array(baseline, np.float64), rng, resamples, confidence)


def with_interval(low: float | None, high: float | None) -> Comparison:
    point = None if low is None or high is None else (low + high) / 2
    gain = Gain(point, low, high)
    return Comparison(30, 0, 30, 0, 0, 0, 0, 1, 1, None, None, gain, gain, None, None)


def test_gains_by_hand():
    found = compared([50, 200, 100], [100, 100, 100])
    assert found.total.value == pytest.approx(1 - 350 / 300)
    assert found.geomean.value == pytest.approx(0.0)  # one half and two cancel
    assert (found.num_compared, found.wins, found.losses, found.ties) == (3, 1, 1, 1)
    assert (found.policy_sum, found.baseline_sum) == (350, 300)


def test_scores_below_one_have_ratios():
    """As costs of spills may be, which no rounding to bytes has touched."""
    assert compared([0.25, 1.0], [0.5, 1.0]).geomean.value == pytest.approx(1 - math.sqrt(0.5))


@pytest.mark.parametrize("elements", [8, 1 << 20])
def test_as_many_resamples_as_are_asked_for(monkeypatch, elements):
    drawn = []
    monkeypatch.setattr("mlgo.experiments.inference._BATCH_ELEMENTS", elements)
    monkeypatch.setattr(
        "mlgo.experiments.inference.percentile_interval",
        lambda found, confidence: drawn.append(found.shape) or percentile_interval(found, confidence),
    )
    compared([90, 100, 110], [100, 100, 100], resamples=151)
    assert drawn == [(2, 151)]


def test_large_modules_count_more_in_total_only():
    found = compared([900, 10], [1000, 10])
    assert found.total.value == pytest.approx(1 - 910 / 1010)
    assert found.geomean.value == pytest.approx(1 - math.sqrt(0.9))


def test_over_two_percent_is_exact():
    assert compared([102, 103, 51, 1021], [100, 100, 50, 1000]).worse_than_2_percent == 2


def test_failed_modules_are_left_out_and_counted():
    found = compared([90, math.nan, 90, 90], [100, 100, math.nan, 100])
    assert (found.num_compared, found.num_failed) == (2, 2)
    assert found.total.value == pytest.approx(0.1)


def test_a_single_policy_is_compared_to_the_last_byte():
    large = 10**13
    found = compared([large - 1, large + 1, large], [large] * 3)
    assert (found.wins, found.losses, found.ties) == (1, 1, 1)
    several = over_seeds([[large - 1, large + 1, large]] * 2, [large] * 3)  # means over seeds are rounded
    assert (several.wins, several.losses, several.ties) == (0, 0, 3)


def test_a_failed_module_without_code_before_is_no_tie():
    found = compared([math.nan, 50], [0, 100])
    assert (found.num_compared, found.num_failed, found.ties) == (1, 1, 0)
    assert found.total.value == pytest.approx(0.5)


def test_modules_without_code_are_ties_but_one_sided_zeros_have_no_ratio():
    found = compared([0, 0, 5, 90], [0, 7, 0, 100])
    assert (found.num_compared, found.num_failed, found.ties) == (2, 2, 1)
    assert found.geomean.value == pytest.approx(1 - math.sqrt(0.9))


def test_intervals_over_groups_by_hand():
    """Of two groups, one of three halves and one of a single tie, a resample holds one twice, or both half the time."""
    ratios, groups = np.array([0.5, 0.5, 0.5, 1.0]), np.array([4, 4, 4, 9])
    for confidence, low, high in [(0.95, 0.0, 0.5), (0.3, 1 - 0.5**0.75, 1 - 0.5**0.75)]:
        found = Bootstrap(400, confidence, 0).compare(ratios, np.ones(4), "halves", groups=groups)
        assert (found.num_compared, found.geomean.value) == (4, pytest.approx(1 - 0.5**0.75))
        assert (found.geomean.low, found.geomean.high) == (pytest.approx(low), pytest.approx(high))


def test_groups_of_one_change_nothing_and_one_group_has_no_interval():
    policy, baseline = np.array([3.0, math.nan, 5.0, 7.0]), np.array([4.0, 4.0, 4.0, 8.0])
    bootstrap = Bootstrap(100, 0.9, 1)
    alone = bootstrap.compare(policy, baseline, "x", groups=np.array([5, 6, 7, 8]))
    assert alone == bootstrap.compare(policy, baseline, "x")
    one = bootstrap.compare(policy, baseline, "x", groups=np.zeros(4, np.int64))
    assert one.geomean.value == alone.geomean.value
    assert one.geomean.low is one.geomean.high is None


def test_all_without_code_gives_zero():
    found = compared([0, 0], [0, 0])
    assert (found.total.value, found.geomean.value, found.geomean.low, found.geomean.high) == (0.0, 0.0, 0.0, 0.0)


def test_one_module_has_no_interval():
    found = compared([90], [100])
    assert found.geomean.value == pytest.approx(0.1)
    assert found.geomean.low is found.geomean.high is found.total.low is found.total.high is None
    assert found.verdict == "no difference shown"


def test_no_module_has_no_gain():
    found = compared([math.nan], [100])
    assert (found.num_compared, found.num_failed, found.total.value, found.geomean.value) == (0, 1, None, None)
    assert found.verdict == "no difference shown"


def test_all_ties_have_a_point_as_interval():
    found = compared([10, 20, 30], [10, 20, 30])
    assert found.total.value == found.total.low == found.total.high == 0.0
    assert found.geomean.value == found.geomean.low == found.geomean.high == 0.0
    assert math.copysign(1.0, found.geomean.value) == 1.0
    assert found.verdict == "no difference shown"


def test_equal_ratios_have_a_point_as_interval():
    found = compared([90, 180, 27], [100, 200, 30])
    assert found.geomean.low == pytest.approx(0.1)
    assert found.geomean.high == pytest.approx(0.1)


def test_interval_has_the_width_of_the_normal_one():
    rng = np.random.default_rng(1)
    logs = rng.normal(-0.01, 0.02, 400)
    found = compared(1e6 * np.exp(logs), np.full(400, 1e6), resamples=4000)
    half = 1.96 * logs.std() / math.sqrt(400)
    assert found.geomean.low == pytest.approx(1 - math.exp(logs.mean() + half), abs=3e-4)
    assert found.geomean.high == pytest.approx(1 - math.exp(logs.mean() - half), abs=3e-4)


def test_memory_batches_do_not_change_the_draws(monkeypatch):
    policy, baseline = [90, 120, 100, 70], [100, 100, 100, 80]
    whole = compared(policy, baseline)
    monkeypatch.setattr("mlgo.experiments.inference._BATCH_ELEMENTS", 8)
    assert compared(policy, baseline) == whole


def test_draws_depend_on_seed_and_name():
    policy, baseline = np.array([90.0, 130, 100, 71, 55]), np.array([100.0, 100, 100, 80, 81])
    first = Bootstrap(100, 0.9, 0).compare(policy, baseline, "a")
    assert first == Bootstrap(100, 0.9, 0).compare(policy, baseline, "a")
    others = [
        Bootstrap(100, 0.9, 0).compare(policy, baseline, "b"),
        Bootstrap(100, 0.9, 1).compare(policy, baseline, "a"),
    ]
    assert all(
        other.geomean.value == first.geomean.value and other.geomean.low != first.geomean.low for other in others
    )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.001, 0.02, "smaller"),
        (-0.02, -0.001, "larger"),
        (-0.01, 0.03, "no difference shown"),
        (0.0, 0.03, "no difference shown"),
        (-0.03, 0.0, "no difference shown"),
        (None, None, "no difference shown"),
    ],
)
def test_verdict(low, high, expected):
    assert with_interval(low, high).verdict == expected


def test_fewer_than_six_modules_allow_no_verdict():
    assert dataclasses.replace(with_interval(0.001, 0.02), num_resampled=5).verdict == "no difference shown"
    assert dataclasses.replace(with_interval(0.001, 0.02), num_resampled=6).verdict == "smaller"


@pytest.mark.parametrize(
    ("wins", "losses", "expected"),
    [
        (10, 2, 2 * (1 + 12 + 66) / 2**12),
        (2, 10, 2 * (1 + 12 + 66) / 2**12),
        (6, 0, 2 / 2**6),
        (3, 3, 1.0),
        (1, 0, 1.0),
        (0, 0, None),
    ],
)
def test_sign_test_by_hand(wins, losses, expected):
    found = compared([9] * wins + [11] * losses + [10, 10], [10] * (wins + losses + 2))
    assert found.ties == 2
    assert found.sign_p == (None if expected is None else pytest.approx(expected))


def test_share_of_modules_that_grow():
    assert compared([103, 100, 100, 90], [100] * 4).worse_share == 0.25
    assert compared([math.nan], [100]).worse_share is None


def over_seeds(policies, baseline, resamples=400, confidence=0.95) -> Comparison:
    arrays = np.array(policies, np.float64), np.array(baseline, np.float64)
    return compare(*arrays, np.random.default_rng(0), resamples, confidence)


def test_mean_over_seeds_by_hand():
    found = over_seeds([[50, 100, 300], [100, 100, 150]], [100, 100, 200])
    assert found.total.value == pytest.approx(((1 - 450 / 400) + (1 - 350 / 400)) / 2)
    seeds = [1 - (0.5 * 1 * 1.5) ** (1 / 3), 1 - (1 * 1 * 0.75) ** (1 / 3)]
    assert found.geomean.value == pytest.approx(sum(seeds) / 2)
    # Over both seeds the modules change by the root of 1/2, of 1, and of 3/2 * 3/4 = 9/8.
    assert (found.wins, found.losses, found.ties, found.worse_than_2_percent) == (1, 1, 1, 1)
    assert (found.num_compared, found.policy_sum, found.baseline_sum) == (3, 400, 400)


def test_over_two_percent_means_the_mean_over_seeds():
    """One seed at 5 %, or two at 2 % exactly, are not enough; 1 and 4 % are, as the root of 1.01 * 1.04 is 1.0249."""
    found = over_seeds([[105, 102, 101, 97], [97, 102, 104, 110]], [100] * 4)
    assert (found.losses, found.worse_than_2_percent) == (4, 2)  # the last is 3.3 %


def test_opposite_seeds_cancel_to_a_tie():
    assert over_seeds([[30, 7], [10 / 3, 7]], [10, 7]).ties == 2


def test_a_module_counts_only_if_every_seed_has_it():
    found = over_seeds([[90, math.nan, 90], [90, 90, 90]], [100, 100, math.nan])
    assert (found.num_compared, found.num_failed, found.geomean.low) == (1, 2, None)
    assert found.geomean.value == pytest.approx(0.1)


def test_seeds_alone_can_widen_the_interval():
    # No module differs from another, so all spread is of the seeds: both draws are of one seed in half of the cases.
    found = over_seeds([[100] * 8, [90] * 8], [100] * 8)
    assert (found.geomean.low, found.geomean.high) == (0.0, pytest.approx(0.1))
    assert found.geomean.value == pytest.approx(0.05)
    assert found.verdict == "no difference shown"


def test_equal_seeds_have_the_interval_of_one():
    rng = np.random.default_rng(3)
    baseline = np.full(300, 1e6)
    policy = np.round(baseline * np.exp(rng.normal(-0.01, 0.03, 300)))
    one, three = compared(policy, baseline, resamples=4000), over_seeds([policy] * 3, baseline, resamples=4000)
    for name in ("total", "geomean"):
        assert getattr(three, name).value == pytest.approx(getattr(one, name).value)
        for end in ("low", "high"):
            assert getattr(getattr(three, name), end) == pytest.approx(getattr(getattr(one, name), end), abs=3e-4)


def test_groups_under_several_seeds_by_hand():
    """As with one seed: a resample holds one of two groups twice, or both. A group that only failed is none."""
    ratios, groups = np.array([0.5, math.nan, 0.5, 0.5, 1.0]), np.array([4, 7, 4, 4, 9])
    found = Bootstrap(400, 0.95, 0).compare(np.stack([ratios] * 2), np.ones(5), "halves", groups=groups)
    assert (found.num_compared, found.geomean.value) == (4, pytest.approx(1 - 0.5**0.75))
    assert (found.geomean.low, found.geomean.high) == (0.0, pytest.approx(0.5))
    alone = Bootstrap(400, 0.95, 0).compare(np.stack([ratios] * 2), np.ones(5), "x", groups=np.arange(5))
    assert alone == Bootstrap(400, 0.95, 0).compare(np.stack([ratios] * 2), np.ones(5), "x")
    one_group = Bootstrap(400, 0.95, 0).compare(np.stack([ratios] * 2), np.ones(5), "x", groups=np.zeros(5, int))
    assert one_group.geomean.low is None


def test_memory_batches_do_not_change_the_draws_of_seeds(monkeypatch):
    policies, baseline = [[90, 120, 100, 70], [95, 110, 100, 60]], [100, 100, 100, 80]
    whole = over_seeds(policies, baseline)
    monkeypatch.setattr("mlgo.experiments.inference._BATCH_ELEMENTS", 1600)
    assert over_seeds(policies, baseline) == whole


@given(SIZES)
def test_exchange_flips_the_sign(pairs):
    policy, baseline = zip(*pairs, strict=True)
    there, back = compared(policy, baseline), compared(baseline, policy)
    assert math.log1p(-there.geomean.value) == pytest.approx(-math.log1p(-back.geomean.value), abs=1e-9)
    assert (there.wins, there.losses, there.ties) == (back.losses, back.wins, back.ties)


@given(SIZES)
def test_interval_contains_the_gain(pairs):
    found = compared(*zip(*pairs, strict=True))
    if len(pairs) > 1:
        assert found.total.low <= found.total.value <= found.total.high
        assert found.geomean.low <= found.geomean.value <= found.geomean.high


@given(SIZES)
def test_smaller_is_never_said_lightly(pairs):
    found = compared(*zip(*pairs, strict=True))
    if found.verdict == "smaller":
        assert 0.0 < found.geomean.low <= found.geomean.value
        assert found.wins > 0
    if found.geomean.low is None or found.geomean.low <= 0.0:
        assert found.verdict != "smaller"


@given(SIZES, st.integers(2, 50))
def test_unit_of_size_does_not_matter(pairs, factor):
    policy, baseline = (np.array(side, np.float64) for side in zip(*pairs, strict=True))
    one, many = compared(policy, baseline), compared(factor * policy, factor * baseline)
    assert one.total.value == pytest.approx(many.total.value)
    assert one.geomean.value == pytest.approx(many.geomean.value)


@pytest.mark.parametrize(("confidence", "low", "high"), [(0.95, 0.0, 0.5), (0.4, 0.25, 0.25)])
def test_ends_of_an_interval_by_hand(confidence, low, high):
    """Of two modules, one halved and one equal: a resample holds one twice in a quarter of the cases each, else both.

    So 25 % of the gains in total are 0, 25 % are 1/2, the others 1/4: 95 % of them reach from 0 to 1/2, the middle 40 %
    are 1/4. An end that were the gain itself would be 1/4 in the first case, too.
    """
    found = compared([50, 100], [100, 100], resamples=4000, confidence=confidence)
    assert found.total.value == 0.25
    assert (found.total.low, found.total.high) == (low, high)
    assert found.geomean.value == pytest.approx(1 - 0.5**0.5)
    ends = (0.0, 0.5) if confidence == 0.95 else (1 - 0.5**0.5, 1 - 0.5**0.5)
    assert (found.geomean.low, found.geomean.high) == (pytest.approx(ends[0]), pytest.approx(ends[1]))


def test_ends_leave_equal_shares_outside():
    low, high = percentile_interval(np.stack([np.arange(101.0), -np.arange(101.0)]), 0.9)
    assert (low.tolist(), high.tolist()) == (pytest.approx([5.0, -95.0]), pytest.approx([95.0, -5.0]))


def test_both_ends_differ_from_the_gain():
    found = compared([80, 90, 100, 110, 95, 70, 99, 101], [100] * 8)
    for gain in (found.total, found.geomean):
        assert gain.low < gain.value - 0.01
        assert gain.high > gain.value + 0.01


def test_without_resamples_there_is_no_interval():
    found = compared([90, 80], [100, 100], resamples=0)
    assert (found.total, found.geomean.low) == (Gain(pytest.approx(0.15)), None)


def test_share_of_the_best_known_by_hand():
    rng = np.random.default_rng(0)
    policy, baseline, best = (np.array(values, float) for values in ([90, 100, 50], [100, 200, 50], [80, 50, math.nan]))
    found = compare(policy, baseline, rng, 0, 0.95, best=best)
    # The third module has no best known score: it is compared, but counts for no share.
    assert (found.num_compared, found.policy_sum, found.baseline_sum, found.best_sum) == (3, 240, 350, 130)
    assert found.total_share == pytest.approx((300 - 190) / (300 - 130))
    assert found.geomean_share == pytest.approx(math.log(0.9 * 0.5) / math.log(0.8 * 0.25))
    assert found.mean_change == pytest.approx((-0.1 - 0.5 + 0.0) / 3)
    assert compare(policy, baseline, rng, 0, 0.95, best=baseline).total_share is None
    together = compare(np.stack([policy, baseline]), baseline, rng, 0, 0.95, best=best)
    assert together.total_share == pytest.approx(55 / 170)
