"""Perturbations, finite differences and gradients, worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.config import load_config
from mlgo.learn.es.estimate import Antithetic, Forward
from mlgo.learn.es.gradient import augmented_random_search, estimate_gradient, monte_carlo, shape_rewards
from mlgo.learn.es.perturb import perturb
from mlgo.learn.es.regression import least_squares, ridge
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
    assert shape_rewards(np.array(rewards), "rank").tolist() == pytest.approx(expected)


def test_other_shapings_by_hand():
    # mean 2, variance ((-1)^2 + 1^2) / 2 = 1
    assert shape_rewards(np.array([1.0, 3.0]), "zscore").tolist() == [-1.0, 1.0]
    assert shape_rewards(np.array([2.0, 2.0]), "zscore").tolist() == [0.0, 0.0]
    assert shape_rewards(np.array([2.0, 5.0]), "none").tolist() == [2.0, 5.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_ranks_are_centred_bounded_and_keep_the_order(rewards):
    values = np.array(rewards)
    shaped = shape_rewards(values, "rank")
    assert abs(shaped.sum()) < 1e-9
    assert np.all(np.abs(shaped) <= 0.5)
    for i in range(len(values)):
        assert np.array_equal(shaped > shaped[i], values > values[i])


def test_noise_has_the_scale():
    noise = perturb(np.random.default_rng(0), 2000, 5, 0.3)
    assert noise.shape == (2000, 5)
    assert noise.std() == pytest.approx(0.3, rel=0.03)
    assert abs(noise.mean()) < 0.01


@pytest.mark.parametrize(("pairs", "num_params"), [(1, 1), (3, 7), (7, 7), (8, 3), (3, 1)])
def test_orthogonal_directions_come_in_groups(pairs, num_params):
    noise = perturb(np.random.default_rng(1), pairs, num_params, 0.5, orthogonal=True)
    assert noise.shape == (pairs, num_params)
    for first in range(0, pairs, num_params):
        group = noise[first : first + num_params]
        products = group @ group.T
        assert products - np.diag(np.diag(products)) == pytest.approx(np.zeros_like(products), abs=1e-12)
        assert np.all(np.diag(products) > 0)


def test_an_orthogonal_direction_alone_is_gaussian():
    rng = np.random.default_rng(2)
    noise = np.stack([perturb(rng, 3, 4, 0.5, orthogonal=True) for _ in range(4000)])
    for number in range(3):  # the first as much as the last
        direction = noise[:, number] / 0.5
        assert direction.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.06)
        assert np.cov(direction.T) == pytest.approx(np.eye(4), abs=0.1)
        lengths = (direction**2).sum(axis=1)  # chi squared with 4 degrees of freedom: mean 4, variance 8
        assert lengths.mean() == pytest.approx(4.0, abs=0.2)
        assert lengths.var() == pytest.approx(8.0, abs=1.2)


def test_antithetic_by_hand():
    both = Antithetic(np.array([[0.5, 0.0], [0.0, -1.0]]))
    assert both.offsets.tolist() == [[0.5, 0.0], [0.0, -1.0], [-0.5, 0.0], [0.0, 1.0]]
    assert both.usable(np.array([1.0, NAN, 3.0, 4.0])).tolist() == [True, False]
    assert both.usable(np.array([1.0, 2.0, np.inf, 4.0])).tolist() == [False, True]
    rewards = np.array([1.0, 2.0, 3.0, -4.0])
    assert both.usable(rewards).all()
    assert both.rises(rewards).tolist() == [-2.0, 6.0]
    assert both.better(rewards).tolist() == [3.0, 2.0]
    kept, left = both.keep(np.array([False, True]), rewards)
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
    kept, left = plus.keep(np.array([False, True]), rewards)
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
    directions = estimator(perturb(np.random.default_rng(1), 20_000, 3, 0.1))
    assert monte_carlo(directions, 7.0 + directions.offsets @ slope, 0.1) == pytest.approx(slope, abs=0.05)


def test_augmented_random_search_by_hand():
    noise = 0.5 * np.eye(3)
    # Antithetic. Better ones 3, 4, 1: the first two directions. Their rewards 3, 0, 1, 4 have mean 2 and variance 2.5.
    rewards = np.array([3.0, 0.0, 1.0, 1.0, 4.0, 1.0])
    found = augmented_random_search(Antithetic(noise), rewards, 0.5, 2)
    assert found.tolist() == pytest.approx([2 / (2 * 2.5**0.5), -4 / (2 * 2.5**0.5), 0.0])
    # Forward. Candidates 3, 0, 1: first and last. With the mean's 2 the variance is 2/3; rises 1 and -1.
    found = augmented_random_search(Forward(noise), np.array([3.0, 0.0, 1.0, 2.0]), 0.5, 2)
    assert found.tolist() == pytest.approx([1 / (2 * (2 / 3) ** 0.5), 0.0, -1 / (2 * (2 / 3) ** 0.5)])


def test_augmented_random_search_at_its_limits():
    noise, rewards = np.array([[0.3, -0.1], [0.2, 0.4]]), np.array([1.0, 2.0, -1.0, 0.5])
    everything = augmented_random_search(Antithetic(noise), rewards, 0.1, 2)
    assert augmented_random_search(Antithetic(noise), rewards, 0.1, 99).tolist() == everything.tolist()
    assert augmented_random_search(Antithetic(noise), np.full(4, 0.3), 0.1, 2).tolist() == [0.0, 0.0]


@given(st.integers(0, 2**32), st.floats(0.01, 100.0), st.floats(-100.0, 100.0))
def test_augmented_random_search_does_not_see_scale_and_offset(seed, factor, offset):
    rng = np.random.default_rng(seed)
    directions, rewards = Antithetic(rng.standard_normal((4, 3))), rng.standard_normal(8)
    plain = augmented_random_search(directions, rewards, 0.1, 2)
    assert augmented_random_search(directions, factor * rewards + offset, 0.1, 2) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("estimator", [Antithetic, Forward])
@pytest.mark.parametrize("pairs", [3, 5])
def test_regression_finds_the_slope_of_a_linear_reward(estimator, pairs):
    slope = np.array([2.0, -1.0, 0.5])
    directions = estimator(perturb(np.random.default_rng(3), pairs, 3, 0.1))
    rewards = 0.7 + directions.offsets @ slope
    plain = {"shaping": "none", "perturbation": 0.1}
    linear = CONFIG.model_copy(update={**plain, "gradient": "linear"})
    assert estimate_gradient(directions, rewards, linear) == pytest.approx(slope, rel=1e-9)
    nearly = CONFIG.model_copy(update={**plain, "gradient": "ridge", "ridge_penalty": 1e-12})
    assert estimate_gradient(directions, rewards, nearly) == pytest.approx(slope, rel=1e-6)


def test_with_too_few_directions_the_shortest_slope_is_found():
    # One direction along (1, 1) sees a slope of 2 per (1, 1): the shortest explanation is 1 along each axis.
    directions = Antithetic(np.array([[0.1, 0.1]]))
    config = CONFIG.model_copy(update={"gradient": "linear", "shaping": "none", "perturbation": 0.1})
    assert estimate_gradient(directions, np.array([0.2, -0.2]), config).tolist() == pytest.approx([1.0, 1.0])


def test_ridge_by_hand():
    # x = 1, -2; y = 0.3, -0.6; b = (0.3 + 1.2) / (1 + 4 + 2 * 2.5)
    features, targets = np.array([[1.0], [-2.0]]), np.array([0.3, -0.6])
    assert ridge(features, targets, 2.5).tolist() == pytest.approx([0.15])
    # As a gradient with noise of 0.1: 0.15 / 0.1. Antithetic rises are twice the targets.
    config = CONFIG.model_copy(
        update={"gradient": "ridge", "ridge_penalty": 2.5, "shaping": "none", "perturbation": 0.1}
    )
    directions, rewards = Antithetic(0.1 * features), np.concatenate([targets, -targets])
    assert estimate_gradient(directions, rewards, config).tolist() == pytest.approx([1.5])


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 8), st.floats(0.01, 10.0))
def test_ridge_solves_its_equations(seed, num, num_features, penalty):
    rng = np.random.default_rng(seed)
    features, targets = rng.standard_normal((num, num_features)), rng.standard_normal(num)
    found = ridge(features, targets, penalty)
    slope = features.T @ (features @ found - targets) / num + penalty * found
    assert slope == pytest.approx(np.zeros(num_features), abs=1e-9)


def test_a_large_penalty_gives_the_direction_of_monte_carlo():
    rng = np.random.default_rng(4)
    directions, rewards = Antithetic(0.1 * rng.standard_normal((5, 8))), rng.standard_normal(10)
    config = CONFIG.model_copy(
        update={"gradient": "ridge", "ridge_penalty": 1e6, "shaping": "none", "perturbation": 0.1}
    )
    found, average = estimate_gradient(directions, rewards, config), monte_carlo(directions, rewards, 0.1)
    cosine = found @ average / np.linalg.norm(found) / np.linalg.norm(average)
    assert cosine == pytest.approx(1.0, abs=1e-9)


def test_least_squares_by_hand():
    # y = 1, 2, 6 at x = 1, 2, 3: (1 + 4 + 18) / 14
    assert least_squares(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 6.0])).tolist() == pytest.approx(
        [23 / 14]
    )


def test_the_configuration_names_the_gradient():
    rng = np.random.default_rng(5)
    directions, rewards = Antithetic(0.3 * rng.standard_normal((6, 3))), rng.standard_normal(12)
    found = {
        name: estimate_gradient(directions, rewards, CONFIG.model_copy(update={"gradient": name})).tolist()
        for name in ("monte_carlo", "ars", "ridge", "linear")
    }
    assert found["monte_carlo"] == monte_carlo(directions, shape_rewards(rewards, "rank"), 0.3).tolist()
    assert found["ars"] == augmented_random_search(directions, rewards, 0.3, CONFIG.top_directions).tolist()
    assert len({tuple(gradient) for gradient in found.values()}) == 4
