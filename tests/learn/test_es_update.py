"""Update rules, worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.config import load_config
from mlgo.learn.es.directions import Antithetic
from mlgo.learn.es.trust_region import RewardModel, TrustRegionState, fit_model, trust_region_step
from mlgo.learn.es.update import AdamState, MomentumState, adam_step, ascend, momentum_step
from tests.conftest import REPOSITORY

CONFIG = load_config(REPOSITORY / "config" / "config.yaml").es
TRUST = CONFIG.trust_region.model_copy(
    update={
        "min_radius": 0.4,
        "max_radius": 3.0,
        "accept_threshold": 0.05,
        "shrink_threshold": 0.25,
        "shrink_factor": 0.5,
        "grow_threshold": 0.75,
        "grow_factor": 2.0,
    }
)


def test_first_adam_steps_by_hand():
    # First step: corrected moments are g and g^2, so the change is step * g / (|g| + 1e-8).
    change, state = adam_step(AdamState.zeros(3), np.array([4.0, -0.25, 0.0]), 0.1)
    assert change.tolist() == pytest.approx([0.1, -0.1, 0.0])
    assert state.count == 1
    assert state.first.tolist() == pytest.approx([0.4, -0.025, 0.0])
    assert state.second.tolist() == pytest.approx([0.016, 0.0000625, 0.0])
    # Second step with gradient 0: first 0.36 / (1 - 0.81), second 0.015984 / (1 - 0.998001).
    change, state = adam_step(state, np.zeros(3), 0.1)
    assert change[0] == pytest.approx(0.1 * (0.36 / 0.19) / np.sqrt(0.015984 / 0.001999))
    assert state.count == 2


def test_momentum_by_hand():
    change, state = momentum_step(MomentumState(np.zeros(2)), np.array([1.0, -2.0]), 0.1, 0.5)
    assert change.tolist() == pytest.approx([0.1, -0.2])
    change, state = momentum_step(state, np.array([0.0, 4.0]), 0.1, 0.5)  # velocity 0.5, -1 + 4
    assert change.tolist() == pytest.approx([0.05, 0.3])
    assert state.velocity.tolist() == pytest.approx([0.5, 3.0])
    change, _ = momentum_step(state, np.array([1.0, 1.0]), 0.1, 0.0)
    assert change.tolist() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("state", [AdamState(3, np.ones(2), np.ones(2)), MomentumState(np.ones(2))])
def test_a_gradient_of_zeros_moves_nothing(state):
    change, after = ascend(state, np.zeros(2), CONFIG)
    assert change.tolist() == [0.0, 0.0]
    assert after is state


def test_the_state_names_the_rule():
    gradient = np.array([1.0, -2.0])
    expected = adam_step(AdamState.zeros(2), gradient, CONFIG.step_size)[0]
    assert ascend(AdamState.zeros(2), gradient, CONFIG)[0].tolist() == expected.tolist()
    expected = CONFIG.step_size * (CONFIG.momentum * np.ones(2) + gradient)
    assert ascend(MomentumState(np.ones(2)), gradient, CONFIG)[0].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("slope", "curvature", "radius", "expected"),
    [
        ([3, 4], [0, 0], 2.0, [1.2, 1.6]),  # linear: all the way along the slope
        ([2, 0], [-2, -4], 5.0, [1, 0]),  # the peak lies inside: slope / -curvature
        ([2, 4], [-1, -1], 5**0.5, [1, 2]),  # peak at (2, 4); a shift of 1 halves it
        ([1, 0], [3, -1], 2.0, [2, 0]),  # a valley: to the border
        ([0, 0], [-1, 0], 2.0, [0, 0]),  # at the peak
    ],
)
def test_the_best_step_by_hand(slope, curvature, radius, expected):
    slope, curvature = np.array(slope, float), np.array(curvature, float)
    assert RewardModel(slope, curvature).best_step(radius) == pytest.approx(np.array(expected), abs=1e-9)
    assert RewardModel(slope, np.diag(curvature)).best_step(radius) == pytest.approx(np.array(expected), abs=1e-9)


def test_the_hard_case_by_hand():
    # The highest curvature is 2, so the shift is 2: the second is 3 / (2 + 1) = 1, and the first fills up sqrt(4 - 1).
    model = RewardModel(np.array([0.0, 3.0]), np.array([2.0, -1.0]))
    step = model.best_step(2.0)
    assert np.abs(step).tolist() == pytest.approx([3**0.5, 1.0])
    assert model.improvement(step) == pytest.approx(3 + (2 * 3 - 1) / 2)


@given(st.integers(0, 2**32), st.integers(1, 5), st.floats(0.01, 100.0), st.floats(1e-6, 1e3))
def test_no_other_step_within_the_radius_is_better(seed, num_params, radius, scale):
    rng = np.random.default_rng(seed)
    matrix = scale * rng.standard_normal((num_params, num_params))
    model = RewardModel(rng.standard_normal(num_params), matrix + matrix.T)
    best = model.best_step(radius)
    assert np.linalg.norm(best) <= radius * (1 + 1e-9)
    others = rng.standard_normal((200, num_params))
    others *= radius * rng.random((200, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    near = best + 0.01 * radius * rng.standard_normal((200, num_params))
    near *= np.minimum(1.0, radius / np.linalg.norm(near, axis=1, keepdims=True))
    highest = max(model.improvement(other) for other in [*others, *near])
    assert highest <= model.improvement(best) + 1e-9 * (radius + scale * radius**2)


@pytest.mark.parametrize("model", ["linear", "diagonal", "quadratic"])
def test_the_model_of_a_known_reward_is_found(model):
    slope = np.array([1.0, -2.0])
    curvature = {"linear": np.zeros((2, 2)), "diagonal": np.diag([-2.0, -4.0]), "quadratic": [[-2.0, 1.0], [1.0, -4.0]]}
    truth = RewardModel(slope, np.array(curvature[model]))
    offsets = Antithetic(0.1 * np.random.default_rng(0).standard_normal((10, 2))).offsets
    rewards = np.array([0.3 + truth.improvement(offset) for offset in offsets])
    config = TRUST.model_copy(update={"model": model, "ridge_penalty": 1e-13})
    found = fit_model(offsets, rewards, 0.1, config)
    assert found.slope == pytest.approx(slope, abs=1e-5)
    expected = truth.curvature if model == "quadratic" else np.diag(truth.curvature)
    assert found.curvature == pytest.approx(expected, abs=1e-4)


def test_a_fit_by_hand():
    # Offsets are 1 and -1 in units of the noise, rewards 0.2 and -0.2 beside their mean: 0.4 / (2 + 2 * 1) = 0.1.
    config = TRUST.model_copy(update={"model": "linear", "ridge_penalty": 1.0})
    found = fit_model(np.array([[0.1], [-0.1]]), np.array([0.6, 0.2]), 0.1, config)
    assert found.slope.tolist() == pytest.approx([1.0])  # half of the true 2


@pytest.mark.parametrize(
    ("actual", "accepted", "radius"),
    [
        (1.8, True, 2.0),  # 90 % of what was predicted: grows
        (1.5, True, 1.0),  # 75 %, not more
        (1.0, True, 1.0),
        (0.5, True, 1.0),  # 25 %, not less
        (0.2, True, 0.5),  # 10 %: taken, but with less trust
        (0.1, False, 0.5),  # 5 %, not more
        (-1.0, False, 0.5),
        (np.nan, False, 0.5),
    ],
)
def test_acceptance_by_hand(actual, accepted, radius):
    model = RewardModel(np.array([2.0, 0.0]), np.zeros(2))  # predicts 2 for the step (1, 0)
    asked = []

    def improvement(step):
        asked.append(step.tolist())
        return actual

    change, state, record = trust_region_step(TrustRegionState(1.0), model, improvement, TRUST)
    assert asked == [[1.0, 0.0]]
    assert change.tolist() == ([1.0, 0.0] if accepted else [0.0, 0.0])
    assert state.radius == radius
    assert record == {
        "trust_radius": 1.0,
        "predicted_gain": 2.0,
        "actual_gain": None if np.isnan(actual) else actual,
        "accepted": accepted,
    }


def test_the_radius_keeps_its_limits():
    model = RewardModel(np.array([1.0]), np.zeros(1))
    assert trust_region_step(TrustRegionState(2.0), model, lambda step: 2.0, TRUST)[1].radius == 3.0
    assert trust_region_step(TrustRegionState(0.5), model, lambda step: -2.0, TRUST)[1].radius == 0.4


def test_a_flat_model_asks_nothing():
    def never(step):
        raise AssertionError

    model = fit_model(np.array([[0.1], [-0.1]]), np.array([0.3, 0.3]), 0.1, TRUST)
    change, state, record = trust_region_step(TrustRegionState(1.0), model, never, TRUST)
    assert (change.tolist(), state.radius, record["accepted"]) == ([0.0], 1.0, False)
