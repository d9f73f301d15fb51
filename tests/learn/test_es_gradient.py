"""Perturbations, finite differences and gradients, worked out by hand."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.config import load_config
from mlgo.learn.es.directions import Antithetic, Forward, perturb
from mlgo.learn.es.gradient import augmented_random_search, estimate_gradient, monte_carlo, shape_rewards
from mlgo.learn.es.regression import lasso, least_squares, ridge
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
    assert shape_rewards(np.array([1.0, 9.0]), "zscore").tolist() == [-1.0, 1.0]  # deviation 4
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
    assert augmented_random_search(Antithetic(np.ones((2, 3))), np.full(4, 0.3), 0.1, 2).tolist() == [0.0] * 3


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
    sparse = CONFIG.model_copy(update={**plain, "gradient": "lasso", "lasso_penalty": 1e-7})
    assert estimate_gradient(directions, rewards, sparse) == pytest.approx(slope, rel=1e-3)


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


def test_on_an_orthogonal_design_ridge_shrinks_and_lasso_cuts():
    # Columns are orthogonal with mean square 1, so that each coefficient stands alone: the best fit b becomes
    # b / (1 + penalty) by ridge, and b brought penalty / 2 closer to 0 by lasso.
    features = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    targets = features @ [2.0, -0.5, 0.1]
    assert least_squares(features, targets).tolist() == pytest.approx([2.0, -0.5, 0.1])
    assert ridge(features, targets, 0.25).tolist() == pytest.approx([1.6, -0.4, 0.08])
    assert lasso(features, targets, 0.4).tolist() == pytest.approx([1.8, -0.3, 0.0])
    assert np.count_nonzero(lasso(features, targets, 0.4)) == 2
    assert lasso(features, targets, 4.0).tolist() == [0.0, 0.0, 0.0]
    # As a gradient, a design four times as long and with noise of 0.1 gives ten times the slope.
    directions = Antithetic(np.tile(0.1 * features, (4, 1)))
    rewards = np.concatenate([np.tile(targets, 4), -np.tile(targets, 4)])
    plain = {"shaping": "none", "perturbation": 0.1, "ridge_penalty": 0.25, "lasso_penalty": 0.4}
    for gradient, expected in (("ridge", [16.0, -4.0, 0.8]), ("lasso", [18.0, -3.0, 0.0])):
        config = CONFIG.model_copy(update={**plain, "gradient": gradient})
        assert estimate_gradient(directions, rewards, config).tolist() == pytest.approx(expected)


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 8), st.floats(0.01, 3.0))
def test_lasso_is_where_no_direction_descends(seed, num, num_features, penalty):
    rng = np.random.default_rng(seed)
    features, targets = rng.standard_normal((num, num_features)), rng.standard_normal(num)
    found = lasso(features, targets, penalty)
    pull = 2 * features.T @ (targets - features @ found) / num  # penalty where chosen, less elsewhere
    assert np.all(np.abs(pull) <= penalty + 1e-3)
    chosen = found != 0.0
    assert pull[chosen] == pytest.approx(penalty * np.sign(found[chosen]), abs=1e-3)
    assert found.tolist() == lasso(features, targets, penalty).tolist()


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_without_a_penalty_all_regressions_agree(seed, num_features):
    rng = np.random.default_rng(seed)
    features, targets = rng.standard_normal((40, num_features)), rng.standard_normal(40)
    plain = least_squares(features, targets)
    for found in (ridge(features, targets, 1e-9), lasso(features, targets, 1e-9)):
        assert found == pytest.approx(plain, abs=1e-3)


def test_far_more_weights_than_directions():
    rng = np.random.default_rng(6)
    features, targets = rng.standard_normal((10, 1000)), rng.standard_normal(10)
    # The shortest of all exact solutions, and its ridge, by their dual form.
    kernel = features @ features.T
    assert least_squares(features, targets) == pytest.approx(features.T @ np.linalg.solve(kernel, targets))
    dual = features.T @ np.linalg.solve(kernel + 10 * 0.5 * np.eye(10), targets)
    assert ridge(features, targets, 0.5) == pytest.approx(dual)
    weakest = 2 * np.abs(features.T @ targets / 10).max()
    assert not lasso(features, targets, 1.001 * weakest).any()
    assert 1 <= np.count_nonzero(lasso(features, targets, 0.1 * weakest)) <= 10
    assert np.isfinite(lasso(features, targets, 1e-9)).all()  # too weak to settle, and silent about it


@pytest.mark.parametrize("gradient", ["ridge", "lasso", "linear"])
@pytest.mark.parametrize("estimator", [Antithetic, Forward])
def test_regressions_find_no_slope_where_there_is_none(estimator, gradient):
    noise = np.random.default_rng(7).standard_normal((4, 6))
    for shaping in ("rank", "zscore", "none"):
        config = CONFIG.model_copy(update={"gradient": gradient, "shaping": shaping})
        directions = estimator(noise)
        level = np.full(len(directions.offsets), 0.3)
        assert estimate_gradient(directions, level, config).tolist() == [0.0] * 6
        still = estimator(np.zeros((4, 6)))  # no candidate differs from the mean
        rewards = np.arange(len(still.offsets), dtype=np.float64)
        assert estimate_gradient(still, rewards, config).tolist() == [0.0] * 6


def test_other_gradients_do_without_scikit_learn():
    program = (
        "import sys, numpy as np\n"
        "from mlgo.learn.es.directions import Antithetic\n"
        "from mlgo.learn.es.gradient import augmented_random_search, monte_carlo\n"
        "pairs, rewards = Antithetic(np.eye(2)), np.arange(4.0)\n"
        "monte_carlo(pairs, rewards, 1.0), augmented_random_search(pairs, rewards, 1.0, 2)\n"
        "assert not {'sklearn', 'scipy'} & set(sys.modules)\n"
        "from mlgo.learn.es.regression import lasso\n"
        "lasso(np.eye(2), np.ones(2), 0.1)\n"
        "assert 'sklearn' in sys.modules and 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
        for name in ("monte_carlo", "ars", "ridge", "lasso", "linear")
    }
    assert found["monte_carlo"] == monte_carlo(directions, shape_rewards(rewards, "rank"), 0.3).tolist()
    assert found["ars"] == augmented_random_search(directions, rewards, 0.3, CONFIG.top_directions).tolist()
    rises = (shape_rewards(rewards, "rank")[:6] - shape_rewards(rewards, "rank")[6:]) / 2
    unit = directions.noise / CONFIG.perturbation
    assert found["lasso"] == (lasso(unit, rises, CONFIG.lasso_penalty) / CONFIG.perturbation).tolist()
    assert len({tuple(gradient) for gradient in found.values()}) == 5
