"""Perturbations, finite differences and gradients, worked out by hand."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.config import load_config
from mlgo.learn.es.gradient import Directions, centred_ranks, estimate_gradient, monte_carlo, ridge
from tests.conftest import REPOSITORY

Antithetic, Forward = (partial(Directions, antithetic=both) for both in (True, False))
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


def test_antithetic_by_hand():
    both = Antithetic(np.array([[0.5, 0.0], [0.0, -1.0]]))
    assert both.offsets.tolist() == [[0.5, 0.0], [0.0, -1.0], [-0.5, 0.0], [0.0, 1.0]]
    assert both.usable(np.array([1.0, NAN, 3.0, 4.0])).tolist() == [True, False]
    assert both.usable(np.array([1.0, 2.0, np.inf, 4.0])).tolist() == [False, True]
    rewards = np.array([1.0, 2.0, 3.0, -4.0])
    assert both.usable(rewards).all()
    assert both.rises(rewards).tolist() == [-2.0, 6.0]
    assert both.better(rewards).tolist() == [3.0, 2.0]
    kept, left = both.chosen(np.array([False, True]), rewards)
    assert kept.noise.tolist() == [[0.0, -1.0]]
    assert left.tolist() == [2.0, -4.0]


def test_forward_by_hand():
    plus = Forward(np.array([[0.5, 0.0], [0.0, -1.0]]))
    assert plus.offsets.tolist() == [[0.5, 0.0], [0.0, -1.0], [0.0, 0.0]]
    assert plus.usable(np.array([1.0, NAN, 3.0])).tolist() == [True, False]
    assert plus.usable(np.array([1.0, 2.0, NAN])).tolist() == [False, False]  # nothing to compare with
    rewards = np.array([1.0, 6.0, 3.0])
    assert plus.rises(rewards).tolist() == [-2.0, 3.0]
    assert plus.better(rewards).tolist() == [1.0, 6.0]
    kept, left = plus.chosen(np.array([False, True]), rewards)
    assert kept.noise.tolist() == [[0.0, -1.0]]
    assert left.tolist() == [6.0, 3.0]


def test_monte_carlo_by_hand():
    noise = np.array([[0.1, 0.0], [0.0, 0.2]])
    shaped = np.array([0.5, -0.5, -0.1, 0.1])
    # rises 0.6 and -0.6; sums (0.06, -0.12); divided by 2 * 2 pairs * 0.01
    assert monte_carlo(Antithetic(noise), shaped, 0.1).tolist() == pytest.approx([1.5, -3.0])
    # rises 0.6 and -0.4; sums (0.06, -0.08); divided by 2 directions * 0.01
    assert monte_carlo(Forward(noise), np.array([0.5, -0.5, -0.1]), 0.1).tolist() == pytest.approx([3.0, -4.0])


@pytest.mark.parametrize("estimator", [Antithetic, Forward])
def test_monte_carlo_of_a_linear_reward_is_its_slope(estimator):
    slope = np.array([2.0, -1.0, 0.5])
    directions = estimator(0.1 * np.random.default_rng(1).standard_normal((20_000, 3)))
    assert monte_carlo(directions, 7.0 + directions.offsets @ slope, 0.1) == pytest.approx(slope, abs=0.05)


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 8), st.floats(0.01, 10.0))
def test_ridge_solves_its_equations(seed, num, num_features, penalty):
    rng = np.random.default_rng(seed)
    features, targets = rng.standard_normal((num, num_features)), rng.standard_normal(num)
    found = ridge(features, targets, penalty)
    slope = features.T @ (features @ found - targets) / num + penalty * found
    assert slope == pytest.approx(np.zeros(num_features), abs=1e-9)


def configured(**changes):
    return CONFIG.model_copy(update={"perturbation": 0.1, **changes})


def test_ridge_by_hand():
    # x = 1, -2; y = 0.3, -0.6; b = (0.3 + 1.2) / (1 + 4 + 2 * 2.5)
    features = np.array([[1.0], [-2.0]])
    assert ridge(features, np.array([0.3, -0.6]), 2.5).tolist() == pytest.approx([0.15])
    # As a gradient with noise of 0.1: ranks of 3, 1, 0, 2 are 0.5, -1/6, -0.5, 1/6, half the rises 0.5, -1/6;
    # b = (0.5 + 1/3) / (1 + 4 + 2 * 2.5) / 0.1.
    config = configured(gradient="ridge", ridge_penalty=2.5)
    found = estimate_gradient(Antithetic(0.1 * features), np.array([3.0, 1.0, 0.0, 2.0]), config)
    assert found.tolist() == pytest.approx([(0.5 + 1 / 3) / 10 / 0.1])


def test_ridge_shrinks_each_coefficient_of_an_orthogonal_design():
    features = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    assert ridge(features, features @ [2.0, -0.5, 0.1], 0.25).tolist() == pytest.approx([1.6, -0.4, 0.08])


def test_ridge_with_far_more_weights_than_directions():
    rng = np.random.default_rng(6)
    features, targets = rng.standard_normal((10, 1000)), rng.standard_normal(10)
    dual = features.T @ np.linalg.solve(features @ features.T + 10 * 0.5 * np.eye(10), targets)
    assert ridge(features, targets, 0.5) == pytest.approx(dual)


@pytest.mark.parametrize("gradient", ["monte_carlo", "ridge"])
@pytest.mark.parametrize("estimator", [Antithetic, Forward])
def test_there_is_no_slope_where_there_is_none(estimator, gradient):
    config = configured(gradient=gradient)
    directions = estimator(np.random.default_rng(7).standard_normal((4, 6)))
    level = np.full(len(directions.offsets), 0.3)
    assert estimate_gradient(directions, level, config).tolist() == [0.0] * 6
    still = estimator(np.zeros((4, 6)))  # no candidate differs from the mean
    rewards = np.arange(len(still.offsets), dtype=np.float64)
    assert estimate_gradient(still, rewards, config).tolist() == [0.0] * 6


@pytest.mark.parametrize("gradient", ["monte_carlo", "ridge"])
def test_top_directions_are_those_with_the_best_candidates(gradient):
    noise = 0.5 * np.eye(3)
    rewards = np.array([3.0, 0.0, 1.0, 1.0, 4.0, 1.0])  # better ones 3, 4, 1: the first two directions
    top, best = Antithetic(noise[:2]), np.array([3.0, 0.0, 1.0, 4.0])
    found = estimate_gradient(Antithetic(noise), rewards, configured(gradient=gradient, top_directions=2))
    assert found.tolist() == estimate_gradient(top, best, configured(gradient=gradient)).tolist()
    forward, rewards = Forward(noise), np.array([3.0, 0.0, 1.0, 2.0])  # the first and the last
    found = estimate_gradient(forward, rewards, configured(gradient=gradient, top_directions=2))
    kept = estimate_gradient(Forward(noise[[0, 2]]), np.array([3.0, 1.0, 2.0]), configured(gradient=gradient))
    assert found.tolist() == kept.tolist()
    everything = estimate_gradient(forward, rewards, configured(gradient=gradient)).tolist()
    for many in (0, 3, 99):
        assert (
            estimate_gradient(forward, rewards, configured(gradient=gradient, top_directions=many)).tolist()
            == everything
        )


def test_monte_carlo_does_without_scikit_learn():
    program = (
        "import sys, numpy as np\n"
        "from mlgo.learn.es.gradient import Directions\n"
        "from mlgo.learn.es.gradient import monte_carlo, ridge\n"
        "monte_carlo(Directions(np.eye(2), True), np.arange(4.0), 1.0)\n"
        "assert not {'sklearn', 'scipy'} & set(sys.modules)\n"
        "ridge(np.eye(2), np.ones(2), 0.1)\n"
        "assert 'sklearn' in sys.modules and 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_large_penalty_gives_the_direction_of_monte_carlo():
    rng = np.random.default_rng(4)
    directions, rewards = Antithetic(0.1 * rng.standard_normal((5, 8))), rng.standard_normal(10)
    found = estimate_gradient(directions, rewards, configured(gradient="ridge", ridge_penalty=1e6))
    average = monte_carlo(directions, centred_ranks(rewards), 0.1)
    cosine = found @ average / np.linalg.norm(found) / np.linalg.norm(average)
    assert cosine == pytest.approx(1.0, abs=1e-9)


def test_the_configuration_names_the_gradient():
    rng = np.random.default_rng(5)
    directions, rewards = Antithetic(0.3 * rng.standard_normal((6, 3))), rng.standard_normal(12)
    shaped = centred_ranks(rewards)
    found = estimate_gradient(directions, rewards, CONFIG.model_copy(update={"gradient": "monte_carlo"}))
    assert found.tolist() == monte_carlo(directions, shaped, 0.3).tolist()
    expected = ridge(directions.noise / 0.3, (shaped[:6] - shaped[6:]) / 2, CONFIG.ridge_penalty) / 0.3
    found = estimate_gradient(directions, rewards, CONFIG.model_copy(update={"gradient": "ridge"}))
    assert found.tolist() == expected.tolist()
