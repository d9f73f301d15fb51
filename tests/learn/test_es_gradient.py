"""Rewards, finite differences, gradients and update rules, worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.config import load_config
from mlgo.learn.es.gradient import (
    AdamState,
    Coordinates,
    Directions,
    FlipControl,
    adam_step,
    centred_ranks,
    monte_carlo,
    signal_share,
)
from mlgo.learn.es.loop import mean_over_common, ranks_by_module, reward_figures, shared_out
from tests.conftest import REPOSITORY

CONFIG = load_config(REPOSITORY / "config" / "config.yaml").es
NAN = np.nan


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([3.0, 1.0, 2.0], [0.5, -0.5, 0.0]),
        ([0.0, 10.0], [-0.5, 0.5]),
        ([5.0, 5.0, 1.0, 9.0, 5.0], [0.0, 0.0, -0.5, 0.5, 0.0]),  # ranks 0, 2, 2, 2, 4
        ([1.0, 1.0, 2.0], [-0.25, -0.25, 0.5]),  # ranks 0.5, 0.5, 2
        ([4.0, 4.0, 4.0], [0.0, 0.0, 0.0]),
        ([-1e300, 1e300, 0.0], [-0.5, 0.5, 0.0]),
    ],
)
def test_ranks_by_hand(rewards, expected):
    assert centred_ranks(np.array(rewards)).tolist() == pytest.approx(expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_ranks_are_centred_bounded_and_keep_the_order(rewards):
    values = np.array(rewards)
    shaped = centred_ranks(values)
    assert abs(shaped.sum()) < 1e-9
    assert np.all(np.abs(shaped) <= 0.5)
    for i in range(len(values)):
        assert np.array_equal(shaped > shaped[i], values > values[i])


def test_directions_by_hand():
    directions, rewards = Directions(np.array([[0.5, 0.0], [0.0, -1.0]])), np.array([1.0, 2.0, 3.0, -4.0])
    assert directions.offsets.tolist() == [[0.5, 0.0], [0.0, -1.0], [-0.5, 0.0], [0.0, 1.0]]
    assert directions.usable(rewards).all()
    assert directions.rises(rewards).tolist() == [-2.0, 6.0]
    chosen, found = directions.chosen(np.array([False, True]), rewards)
    assert chosen.noise.tolist() == [[0.0, -1.0]]
    assert found.tolist() == [2.0, -4.0]


@pytest.mark.parametrize(
    ("rewards", "usable"), [([1.0, NAN, 3.0, 4.0], [True, False]), ([1.0, 2.0, np.inf, 4.0], [False, True])]
)
def test_directions_whose_candidates_failed(rewards, usable):
    assert Directions(np.eye(2)).usable(np.array(rewards)).tolist() == usable


def test_monte_carlo_by_hand():
    noise = np.array([[0.1, 0.0], [0.0, 0.2]])
    shaped = np.array([0.5, -0.5, -0.1, 0.1])
    # rises 0.6 and -0.6; sums (0.06, -0.12); divided by 2 * 2 pairs * 0.01
    assert monte_carlo(Directions(noise), shaped, 0.1).tolist() == pytest.approx([1.5, -3.0])


def test_monte_carlo_of_a_linear_reward_is_its_slope():
    slope = np.array([2.0, -1.0, 0.5])
    directions = Directions(0.1 * np.random.default_rng(1).standard_normal((20_000, 3)))
    assert monte_carlo(directions, 7.0 + directions.offsets @ slope, 0.1) == pytest.approx(slope, abs=0.05)


def test_there_is_no_slope_where_there_is_none():
    directions = Directions(np.random.default_rng(7).standard_normal((4, 6)))
    level = np.full(len(directions.offsets), 0.3)
    assert monte_carlo(directions, centred_ranks(level), 0.1).tolist() == [0.0] * 6
    still = Directions(np.zeros((4, 6)))  # no candidate differs from the mean
    rewards = np.arange(len(still.offsets), dtype=np.float64)
    assert monte_carlo(still, centred_ranks(rewards), 0.1).tolist() == [0.0] * 6


@pytest.mark.parametrize(
    ("noise", "shaped", "share"),
    [
        ([[1, 0], [1, 0]], [0.5, 0.5, -0.5, -0.5], 1.0),  # both pairs agree
        ([[1, 0], [0, 1]], [0.5, 0.5, -0.5, -0.5], 0.0),  # neither says anything of the other
        ([[1, 0], [1, 0]], [0.5, -0.5, -0.5, 0.5], 0.0),  # they contradict each other
        ([[2, 0], [1, 1]], [0.5, 0.5, -0.5, -0.5], 0.8),  # their product is 2, the square of their mean 2.5
        ([[1, 0]], [0.5, -0.5], 0.0),
    ],
)
def test_share_of_signal_by_hand(noise, shaped, share):
    assert signal_share(Directions(np.array(noise, float)), np.array(shaped)) == pytest.approx(share)


def test_what_is_no_noise_is_the_true_slope():
    rng, slope, squares = np.random.default_rng(5), np.array([1.0, 2.0, 0.0]), []
    for _ in range(500):
        directions = Directions(rng.standard_normal((100, 3)))
        rewards = directions.offsets @ slope + 3.0 * rng.standard_normal(200)
        found = monte_carlo(directions, rewards, 1.0)
        squares.append(signal_share(directions, rewards) * found @ found)
    assert np.mean(squares) == pytest.approx(slope @ slope, abs=0.1)


def test_first_adam_steps_by_hand():
    # First step: corrected moments are g and g^2, so the change is step * g / (|g| + 1e-8).
    change, state = adam_step(AdamState(0, np.zeros(3), np.zeros(3)), np.array([4.0, -0.25, 0.0]), 0.1)
    assert change.tolist() == pytest.approx([0.1, -0.1, 0.0])
    assert state.count == 1
    assert state.first.tolist() == pytest.approx([0.4, -0.025, 0.0])
    assert state.second.tolist() == pytest.approx([0.016, 0.0000625, 0.0])
    # Second step, gradient 0 of the first number: first 0.36 / (1 - 0.81), second 0.015984 / (1 - 0.998001).
    change, state = adam_step(state, np.array([0.0, 1.0, 0.0]), 0.1)
    assert change[0] == pytest.approx(0.1 * (0.36 / 0.19) / np.sqrt(0.015984 / 0.001999))
    assert state.count == 2


def test_a_gradient_of_zeros_moves_nothing():
    state = AdamState(3, np.ones(2), np.ones(2))
    change, after = adam_step(state, np.zeros(2), 0.1)
    assert change.tolist() == [0.0, 0.0]
    assert after is state


def test_candidates_are_compared_on_the_same_modules():
    rewards = np.array([[1.0, NAN, 3.0], [2.0, NAN, 4.0], [0.0, 9.0, NAN]])
    # The second module fails under two of three: it counts for nobody. The third is the third candidate's own fault.
    np.testing.assert_array_equal(mean_over_common(rewards), [2.0, 3.0, NAN])
    # Where exactly half fail, too.
    np.testing.assert_array_equal(mean_over_common(np.array([[1.0, NAN], [2.0, 5.0]])), [1.0, 2.0])
    assert np.isnan(mean_over_common(np.full((2, 2), NAN))).all()
    assert np.isnan(mean_over_common(np.zeros((2, 0)))).all()  # all modules are in quarantine


def test_figures_by_hand():
    rewards = np.array([[0.1, -0.3, 0.2], [0.0, -0.1, NAN], [0.3, 0.3, 0.3]])
    found = reward_figures(rewards, np.array([0.0, NAN, 0.3]))
    assert found == pytest.approx(
        {
            "mean_reward": 0.15,
            "max_reward": 0.3,
            "min_reward": 0.0,
            "reward_p05": 0.015,
            "reward_p25": 0.075,
            "reward_p50": 0.15,
            "reward_p75": 0.225,
            "reward_p95": 0.285,
            "win_share": 5 / 8,
            "regression_share": 2 / 8,
            "mean_regression": -0.2,
            "worst_regression": -0.3,
        }
    )


def test_figures_without_regressions_and_without_anything():
    found = reward_figures(np.array([[0.1]]), np.array([0.1]))
    assert (found["regression_share"], found["mean_regression"], found["worst_regression"]) == (0.0, 0.0, 0.0)
    nothing = reward_figures(np.full((2, 2), NAN), np.full(2, NAN))
    assert nothing.keys() == found.keys()
    assert set(nothing.values()) == {None}


def test_the_mean_is_over_what_each_candidate_compiled():
    rewards = np.ma.masked_array(
        [[1.0, 9.0, 2.0], [9.0, 3.0, 4.0], [np.nan, 9.0, 5.0], [9.0, np.nan, np.nan]],
        [[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]],
    )
    # Half of the two compiles of the first module failed, and of the second, so these count for nobody.
    assert mean_over_common(rewards) == pytest.approx([2.0, 4.0, 5.0, np.nan], nan_ok=True)


def test_ranks_by_module_make_modules_alike():
    values = [[0.5, 0.001, 9.0], [-0.5, 7.0, 9.0], [np.nan, 0.0, 9.0], [0.0, 0.003, 9.0]]
    rewards = np.ma.masked_array(values, [[0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]])  # nobody compiles the third
    ranks = ranks_by_module(rewards)
    assert np.ma.getdata(ranks)[:, 0] == pytest.approx([0.5, -0.5, np.nan, 0.0], nan_ok=True)
    assert ranks[[0, 2, 3], 1].tolist() == [0.0, -0.5, 0.5]
    assert np.ma.getmaskarray(ranks).tolist() == np.ma.getmaskarray(rewards).tolist()


@given(st.integers(1, 9), st.integers(2, 9), st.data())
def test_pairs_share_the_modules_evenly(pairs, modules, data):
    per_pair = data.draw(st.integers(1, modules - 1))
    shared = shared_out(pairs, modules, per_pair, np.random.default_rng(0))
    assert shared.shape == (2 * pairs, modules)
    assert np.array_equal(shared[:pairs], shared[pairs:])  # both candidates of a pair compile the same
    assert set(shared.sum(axis=1).tolist()) == {per_pair}
    assert np.ptp(shared[:pairs].sum(axis=0)) <= 1


def test_noise_is_scaled_to_the_share_of_answers_it_changes():
    # Weights [w] answer x > w. Noise s changes the answers to x in (0, s], its opposite none: 3 of 18 up to 0.4.
    asked = np.arange(0.1, 1.0, 0.1)
    control = FlipControl(lambda weights: asked > weights[0], 0.2)
    coordinates = Coordinates(np.zeros(1, np.float32), np.arange(1), np.ones(1))
    factor = control.factor(coordinates, np.zeros(1), np.ones((1, 1)))
    assert factor == 2.0**-1.5  # 0.35; the next one is 0.42
    assert control.factor(coordinates, np.zeros(1), np.full((1, 1), 0.25)) == 4 * factor
