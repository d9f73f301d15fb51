"""Inference by hand, against published implementations, and what must hold for any sizes."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.compare import inference
from mlgo.compare.inference import (
    POINTS_ONLY,
    Bootstrap,
    Change,
    Comparison,
    Gain,
    OwnDistributions,
    compare_scores,
    correct,
    distributions,
    gains,
    holm,
    interval,
    sign_flip_test,
    sign_test,
)

SIZES = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from("abcdefgh")), min_size=1, max_size=25
)
BOOTSTRAP = Bootstrap(400, 0.95, 0)


@pytest.fixture(scope="module")
def stats():
    """SciPy's statistics; importing them takes longer than the tests, so collecting these does not."""
    from scipy import stats

    return stats


def compared(policy, baseline, projects=None, bootstrap=BOOTSTRAP, names=None, best=None) -> Comparison:
    """Items of the given projects; without them each is a project of its own."""
    names = names or list(map(str, range(len(baseline))))
    arrays = np.array(policy, np.float64), np.array(baseline, np.float64)
    return compare_scores(*arrays, np.array(list(projects or range(len(baseline)))), bootstrap, names, best)


def columns(rows):
    return (list(one) for one in zip(*rows, strict=True))


def test_gains_by_hand():
    """Projects a: 50 + 900 of 100 + 900; b: 200 of 100; c: 300 of 300; d: 33 of 66."""
    found = compared([50, 900, 200, 300, 33], [100, 900, 100, 300, 66], "aabcd")
    assert found.total.value == pytest.approx(1 - 1483 / 1466)
    assert found.geomean.value == pytest.approx(1 - (0.95 * 2 * 1 * 0.5) ** 0.25)
    assert found.median.value == pytest.approx(1 - (0.95 * 1) ** 0.5)
    assert (found.projects, found.items) == ((2, 1, 1), (2, 2, 1))
    assert (found.num_projects, found.num_compared, found.num_seeds) == (4, 5, 1)
    assert (found.policy_sum, found.baseline_sum) == (1483, 1466)
    assert found.mean_change == pytest.approx((-0.5 + 0 + 1 + 0 - 0.5) / 5)


def test_the_worst_are_named():
    found = compared([1010, 1000, 700, 990], [1000, 1000, 600, 1000], "aabb", names=["one", "two", "three", "four"])
    assert found.worst_item == ("three", pytest.approx(100 / 600))
    assert found.worst_project == ("b", pytest.approx(90 / 1600))
    all_smaller = compared([90, 50], [100, 100], "ab")
    assert all_smaller.worst_project == ("a", pytest.approx(-0.1))
    assert all_smaller.worst_item == Change("0", pytest.approx(-0.1))


def test_more_than_half_a_percent_is_exact():
    found = compared([1005, 1006, 201, 10051], [1000, 1000, 200, 10000])
    assert (found.much_larger, found.much_larger_share) == (2, 0.5)
    assert compared([math.nan], [100]).much_larger_share is None


def test_scores_below_one_have_ratios():
    """As costs of spills may be, which no rounding to bytes has touched."""
    assert compared([0.25, 1.0], [0.5, 1.0]).geomean.value == pytest.approx(1 - math.sqrt(0.5))


def test_failed_items_are_left_out_and_counted():
    found = compared([90, math.nan, 90, 90], [100, 100, math.nan, 100], "abcc")
    assert (found.num_compared, found.num_failed, found.num_projects) == (2, 2, 2)
    assert found.total.value == pytest.approx(0.1)


def test_a_project_that_only_failed_is_none():
    found = compared([90, math.nan, math.nan], [100, 100, 100], "abb")
    assert (found.num_projects, found.num_failed, found.geomean) == (1, 2, (pytest.approx(0.1), None, None))


def test_items_without_code_are_equal_but_one_sided_zeros_have_no_ratio():
    found = compared([0, 0, 5, 90], [0, 7, 0, 100])
    assert (found.num_compared, found.num_failed, found.items) == (2, 2, (1, 1, 0))
    assert found.geomean.value == pytest.approx(1 - math.sqrt(0.9))


def test_one_byte_of_ten_terabytes_is_no_tie():
    large = 10**13
    for policy in ([large - 1, large + 1, large], [[large - 1, large + 1, large]] * 2):
        assert compared(policy, [large] * 3).items == (1, 1, 1)


def test_no_item_has_no_gain():
    found = compared([math.nan], [100])
    assert (found.num_compared, found.num_failed, found.total, found.geomean, found.median) == (0, 1, *[Gain()] * 3)
    assert (found.worst_project, found.worst_item, found.sign_p, found.p, found.mean_change) == (None,) * 5
    assert found.finding == "no verdict: 0 projects, six are needed"
    assert compared([], []).num_projects == 0


def test_one_project_has_no_interval_and_no_verdict():
    found = compared([90, 80, 70], [100] * 3, "aaa")
    assert found.geomean == (pytest.approx(0.2), None, None)
    assert found.finding == "no verdict: 1 project, six are needed"


def test_all_equal_has_a_point_as_interval():
    found = compared([10, 20, 30, 40, 50, 60], [10, 20, 30, 40, 50, 60])
    assert found.total == found.geomean == found.median == (0.0, 0.0, 0.0)
    assert math.copysign(1.0, found.geomean.value) == 1.0
    assert (found.sign_p, found.p, found.verdict) == (None, 1.0, "no difference shown")


def test_points_only():
    found = compared([90, 80], [100, 100], bootstrap=POINTS_ONLY)
    assert (found.total, found.p, found.sign_p, found.corrected_p, found.verdict) == (
        *[(pytest.approx(0.15), None, None), None, None, None],
        "no verdict",
    )


# Seeds.


def test_seeds_by_hand():
    """Projects a: 50 and 100 of 100, b: 100 and 100, c: 300 and 150 of 200."""
    found = compared([[50, 100, 300], [100, 100, 150]], [100, 100, 200])
    assert found.total.value == pytest.approx(((1 - 450 / 400) + (1 - 350 / 400)) / 2)
    changes = [0.5**0.5, 1, (1.5 * 0.75) ** 0.5]
    assert found.geomean.value == pytest.approx(1 - math.prod(changes) ** (1 / 3))
    assert found.median.value == 0.0
    assert (found.projects, found.worst_project) == ((1, 1, 1), ("2", pytest.approx(changes[2] - 1)))
    assert (found.num_seeds, found.policy_sum, found.baseline_sum) == (2, 400, 400)


def test_opposite_seeds_cancel_to_a_tie():
    assert compared([[30, 7], [10 / 3, 7]], [10, 7]).projects == (0, 2, 0)


def test_an_item_counts_only_if_every_seed_has_it():
    found = compared([[90, math.nan, 90], [90, 90, 90]], [100, 100, math.nan])
    assert (found.num_compared, found.num_failed, found.geomean.value) == (1, 2, pytest.approx(0.1))


def test_seeds_alone_can_widen_the_interval():
    # No project differs from another, so all spread is of the seeds: both draws are of one seed in half of the cases.
    found = compared([[100] * 8, [90] * 8], [100] * 8)
    assert (found.geomean.low, found.geomean.high) == (0.0, pytest.approx(0.1))
    assert found.geomean.value == pytest.approx(1 - 0.9**0.5)
    assert (found.p, found.verdict) == (2 / 2**8, "no difference shown")  # the seeds disagree, all projects agree


def test_equal_seeds_have_the_interval_of_one():
    rng = np.random.default_rng(3)
    baseline = np.full(30, 1e6)
    policy = np.round(baseline * np.exp(rng.normal(-0.01, 0.03, 30)))
    bootstrap = Bootstrap(20_000, 0.95, 0)
    one, three = compared(policy, baseline, bootstrap=bootstrap), compared([policy] * 3, baseline, bootstrap=bootstrap)
    for name in ("total", "geomean", "median"):
        assert getattr(three, name) == pytest.approx(getattr(one, name), abs=1e-3)


# Intervals.


@pytest.mark.parametrize("seeds", [1, 2])
def test_ends_of_an_interval_by_hand(seeds):
    """Of two projects, one of 100 halved, one of 300 equal: a resample holds one of them twice, or both."""
    found = compared([[50, 300]] * seeds, [100, 300])
    assert found.total == (0.125, 0.0, 0.5)
    assert found.geomean == pytest.approx((1 - 0.5**0.5, 0.0, 0.5))


def test_projects_are_resampled_not_items():
    """Three items of one project halved, one of another equal: the project with its three items comes as a whole."""
    assert compared([50, 50, 50, 100], [100] * 4, "aaab").total == pytest.approx((0.375, 0.0, 0.5))


def test_tails_of_the_expanded_percentile_interval(stats):
    """For 6 projects ``sqrt(6 / 5) * 2.5706 = 2.8159``, of which the normal tail is 0.00243; for many it is 0.025."""
    drawn = np.arange(1_000_001.0)
    low, high = interval(drawn, 0.95, 6)
    assert (low / 1e6, high / 1e6) == (pytest.approx(0.002432, abs=2e-6), pytest.approx(1 - 0.002432, abs=2e-6))
    assert interval(drawn, 0.95, 10**6)[0] / 1e6 == pytest.approx(0.025, abs=1e-5)
    for num in (6, 10, 24):
        tail = stats.norm.cdf(-math.sqrt(num / (num - 1)) * stats.t.ppf(0.975, num - 1))
        assert interval(drawn, 0.95, num)[0] / 1e6 == pytest.approx(tail, abs=1e-6)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 27, 28, 10_000])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_our_distributions_are_those_of_scipy(degrees, confidence, stats):
    p = 0.5 + confidence / 2.0
    assert OwnDistributions.stdtrit(degrees, p) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-10)
    assert OwnDistributions.ndtri(p) == pytest.approx(stats.norm.ppf(p), rel=1e-13)
    assert OwnDistributions.ndtr(-3.0 * p) == pytest.approx(stats.norm.cdf(-3.0 * p), rel=1e-13)


def test_without_scipy_intervals_are_the_same(monkeypatch):
    after, before = np.array([90.0, 70, 99, 101, 50, 98, 97]), np.full(7, 100.0)
    with_scipy = gains(after[None], before, BOOTSTRAP)
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert distributions() is OwnDistributions
    for one, other in zip(gains(after[None], before, BOOTSTRAP), with_scipy, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_against_the_bootstrap_of_scipy(stats):
    """SciPy's percentile interval of the same statistics, at the coverage whose percentiles ours takes; and its BCa."""
    rng = np.random.default_rng(1)
    num = 24
    baseline = np.round(np.exp(rng.normal(10, 1, num)))
    policy = np.round(baseline * np.exp(rng.normal(-0.01, 0.03, num)))
    found = compared(policy, baseline, bootstrap=Bootstrap(40_000, 0.95, 0))
    tail = stats.norm.cdf(-math.sqrt(num / (num - 1)) * stats.t.ppf(0.975, num - 1))
    statistics = {
        "total": lambda p, b, axis: 1 - p.sum(axis=axis) / b.sum(axis=axis),
        "geomean": lambda p, b, axis: 1 - np.exp(np.log(p / b).mean(axis=axis)),
        "median": lambda p, b, axis: 1 - np.exp(np.median(np.log(p / b), axis=axis)),
    }
    percentile = {name: (name, "percentile") for name in statistics}
    for name, (figure, method) in {**percentile, "total_bca": ("total", "BCa")}.items():
        expected = stats.bootstrap(
            *((policy, baseline), statistics[figure]),
            **{"paired": True, "vectorized": True, "n_resamples": 40_000, "confidence_level": 1 - 2 * tail},
            **{"method": method, "rng": np.random.default_rng(2)},
        ).confidence_interval
        mine = getattr(found, name)
        assert (mine.low, mine.high) == pytest.approx((expected.low, expected.high), abs=6e-4), name


def test_memory_batches_do_not_change_the_draws(monkeypatch):
    policies, baseline = [[90, 120, 100, 70], [95, 110, 100, 60]], [100, 100, 100, 80]
    whole = compared(policies, baseline)
    monkeypatch.setattr(inference, "_BATCH_ELEMENTS", 64)
    assert compared(policies, baseline) == whole


def test_draws_depend_on_the_seed_alone():
    policy, baseline = [90, 130, 100, 71, 55], [100, 100, 100, 80, 81]
    one = compared(policy, baseline)
    assert one == compared(policy, baseline)
    other = compared(policy, baseline, bootstrap=Bootstrap(400, 0.95, 1))
    assert (one.geomean.value, one.p) == (other.geomean.value, other.p)
    assert one.geomean.low != other.geomean.low


def test_an_interval_has_the_width_of_the_normal_one():
    logs = np.random.default_rng(1).normal(-0.01, 0.02, 400)
    found = compared(1e6 * np.exp(logs), np.full(400, 1e6), bootstrap=Bootstrap(4000, 0.95, 0))
    half = 1.96 * logs.std() / math.sqrt(400)
    assert found.geomean.low == pytest.approx(1 - math.exp(logs.mean() + half), abs=4e-4)
    assert found.geomean.high == pytest.approx(1 - math.exp(logs.mean() - half), abs=4e-4)


# Tests.


TAIL = 2 * (1 + 12 + 66) / 2**12


@pytest.mark.parametrize(
    ("smaller", "larger", "expected"),
    [(10, 2, TAIL), (2, 10, TAIL), (6, 0, 2 / 2**6), (3, 3, 1.0), (1, 0, 1.0), (0, 0, None)],
)
def test_sign_test_by_hand(smaller, larger, expected):
    changes = np.array([-0.1] * smaller + [0.1] * larger + [0.0, 0.0])
    assert sign_test(changes) == (None if expected is None else pytest.approx(expected))


def test_sign_flip_test_by_hand():
    """Of 1, 2 and 3 with one turned round: the sums of all signs are 0 twice, and 2, 4 and 6 up and down."""
    for changes, expected in (((1, 2, 3), 2 / 8), ((-1, 2, 3), 4 / 8), ((1, -2, 3), 6 / 8), ((1, 2, -3), 8 / 8)):
        assert sign_flip_test(np.array(changes, np.float64), BOOTSTRAP) == expected
    assert sign_flip_test(np.array([0.0, 1.0, 0.0, 2.0, 3.0]), BOOTSTRAP) == 2 / 8  # ties say nothing
    assert sign_flip_test(np.zeros(7), BOOTSTRAP) == 1.0


@pytest.mark.parametrize("num", [2, 5, 6, 12])
def test_against_the_permutation_test_of_scipy(num, stats):
    rng = np.random.default_rng(num)
    for shift in (0.0, 0.5):
        changes = rng.normal(shift, 1.0, num)
        expected = stats.permutation_test(
            (changes,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
        )
        assert sign_flip_test(changes, BOOTSTRAP) == pytest.approx(min(1.0, expected.pvalue))


def test_many_projects_are_counted_in_halves(stats):
    """Of 24 projects there are 16 million assignments: as many as SciPy's random ones find, and as the t-test says."""
    changes = np.random.default_rng(5).normal(0.4, 1.0, 24)
    exact = sign_flip_test(changes, BOOTSTRAP)
    drawn = np.random.default_rng(6).choice((-1.0, 1.0), (100_000, 24)) @ changes
    assert exact == pytest.approx((abs(drawn) >= abs(changes.sum())).mean(), abs=3e-3)
    assert exact == pytest.approx(stats.ttest_1samp(changes, 0.0).pvalue, abs=1e-2)


def test_of_very_many_projects_signs_are_drawn(monkeypatch):
    changes = np.random.default_rng(5).normal(0.3, 1.0, 28)
    exact = sign_flip_test(changes, BOOTSTRAP)
    monkeypatch.setattr(inference, "_MOST_EXACT", 20)
    assert sign_flip_test(changes, Bootstrap(20_000, 0.95, 0)) == pytest.approx(exact, abs=0.01)
    assert sign_flip_test(np.ones(28), Bootstrap(99, 0.95, 0)) == 1 / 100  # never 0


def test_holm_by_hand():
    """The example of Wikipedia's article on the Holm-Bonferroni method, and p-values that are not sorted."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert (holm([]), holm([0.02])) == ([], [0.02])


def test_against_the_correction_of_statsmodels():
    """What ``multipletests(p_values, method="holm")`` of statsmodels 0.15.0 gives."""
    p_values = [0.1015, 0.154, 0.1438, 0.2864, 0.2795, 0.0005, 0.1967, 0.2864, 0.006, 0.0537, 0.0569, 0.0256]
    expected = [0.7105, 0.8628, 0.8628, 0.8628, 0.8628, 0.006, 0.8628, 0.8628, 0.066, 0.4833, 0.4833, 0.256]
    assert holm(p_values) == pytest.approx(expected, abs=1e-12)


# Verdicts.


def with_interval(low: float | None, high: float | None, corrected_p: float | None = 0.01) -> Comparison:
    known = compared([90] * 30, [100] * 30)
    point = None if low is None or high is None else (low + high) / 2
    return replace(known, geomean=Gain(point, low, high), corrected_p=corrected_p)


@pytest.mark.parametrize(
    ("low", "high", "corrected_p", "expected"),
    [
        (0.001, 0.02, 0.01, "smaller"),
        (-0.02, -0.001, 0.01, "larger"),
        (0.001, 0.02, 0.05, "no difference shown"),
        (-0.01, 0.03, 0.01, "no difference shown"),
        (0.0, 0.03, 0.01, "no difference shown"),
        (-0.03, 0.0, 0.01, "no difference shown"),
        (None, None, 0.01, "no verdict"),
        (0.001, 0.02, None, "no verdict"),
    ],
)
def test_verdict(low, high, corrected_p, expected):
    found = with_interval(low, high, corrected_p)
    assert found.verdict == expected
    assert found.finding == (expected if expected != "no verdict" else "no verdict: not tested here")


@pytest.mark.parametrize(
    ("num", "finding"), [(5, "no verdict: 5 projects, six are needed"), (6, "smaller"), (24, "smaller")]
)
def test_six_projects_are_needed_for_a_verdict(num, finding):
    found = compared([90, 91] * num, [100] * 2 * num, list(range(num)) * 2)
    assert (found.finding, found.p, found.num_tests) == (finding, 2 / 2**num, int(num > 5))


def test_several_comparisons_are_corrected_together():
    """All of 6, 7 and 8 projects are smaller: 2 / 2 ** n. Four projects allow no verdict and are no comparison."""
    alone = [compared([90] * num, [100] * num) for num in (7, 4, 6, 8)]
    assert [one.verdict for one in alone] == ["smaller", "no verdict", "smaller", "smaller"]
    found = correct([*alone, replace(alone[0], corrected_p=None, num_tests=0)])
    assert [one.corrected_p for one in found] == [2 / 64, None, 2 / 64, 3 / 128, None]
    assert [one.num_tests for one in found] == [3, 0, 3, 3, 0]
    assert [one.p for one in found] == [one.p for one in [*alone, alone[0]]]
    assert correct([alone[2]] * 2)[0].verdict == "no difference shown"
    assert correct(found) == found  # p-values are corrected from the beginning


def test_a_record_is_plain():
    record = compared([90, 110], [100, 100]).record()
    assert record["projects"] == {"smaller": 1, "equal": 0, "larger": 1}
    assert set(record["geomean"]) == {"value", "low", "high"}
    assert record["worst_item"] == {"name": "1", "share": pytest.approx(0.1)}
    assert (record["verdict"], record["num_projects"]) == ("no verdict", 2)


# Whatever the sizes.


@given(SIZES)
def test_order_of_the_rows_does_not_matter(rows):
    one, other = compared(*columns(rows)), compared(*columns(rows[::-1]))
    assert other.total == pytest.approx(one.total, nan_ok=True)
    assert other.geomean == pytest.approx(one.geomean)
    assert other.median == pytest.approx(one.median)
    assert (other.projects, other.items, other.p, other.sign_p) == (one.projects, one.items, one.p, one.sign_p)


@given(SIZES, st.integers(2, 50))
def test_unit_of_size_does_not_matter(rows, factor):
    policy, baseline, projects = columns(rows)
    one = compared(policy, baseline, projects)
    many = compared([factor * size for size in policy], [factor * size for size in baseline], projects)
    for name in ("total", "geomean", "median"):
        assert getattr(many, name) == pytest.approx(getattr(one, name))
    assert many.p == pytest.approx(one.p)
    assert many.projects == one.projects


@given(SIZES)
def test_identical_sizes_have_no_width(rows):
    policy, _, projects = columns(rows)
    found = compared(policy, policy, projects)
    ends = (0.0, 0.0) if found.num_projects > 1 else (None, None)
    assert found.total == found.geomean == found.median == (0.0, *ends)
    assert found.verdict in ("no difference shown", "no verdict")


@given(SIZES)
def test_exchange_flips_the_sign(rows):
    policy, baseline, projects = columns(rows)
    there, back = compared(policy, baseline, projects), compared(baseline, policy, projects)
    assert math.log1p(-there.geomean.value) == pytest.approx(-math.log1p(-back.geomean.value), abs=1e-9)
    assert there.projects == back.projects[::-1]
    assert there.p == pytest.approx(back.p)


@given(SIZES)
def test_intervals_contain_the_gains_and_smaller_is_never_said_lightly(rows):
    found = compared(*columns(rows))
    for gain in (found.total, found.geomean, found.median):
        assert (gain.low is None) == (found.num_projects < 2)
        assert gain.low is None or gain.low <= gain.value <= gain.high
    if found.verdict == "smaller":
        assert 0.0 < found.geomean.low <= found.geomean.value
        assert found.num_projects >= 6
        assert found.p < 0.05


@given(SIZES)
def test_items_of_a_project_may_be_joined(rows):
    """What matters are a project's sums."""
    policy, baseline, projects = columns(rows)
    names = sorted(set(projects))
    sums = [
        [sum(size for size, project in zip(sizes, projects, strict=True) if project == name) for name in names]
        for sizes in (policy, baseline)
    ]
    one, joined = compared(policy, baseline, projects), compared(*sums, names)
    assert (joined.total, joined.geomean, joined.median, joined.p) == (one.total, one.geomean, one.median, one.p)
