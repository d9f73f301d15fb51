"""Update rules, worked out by hand."""

import numpy as np
import pytest

from mlgo.base.config import load_config
from mlgo.learn.es.gradient import AdamState, Directions, TrustRegionState, adam_step, fit_slope, trust_region_step
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


def test_the_slope_of_a_linear_reward_is_found():
    slope = np.array([1.0, -2.0])
    offsets = Directions(0.1 * np.random.default_rng(0).standard_normal((10, 2)), True).offsets
    assert fit_slope(offsets, 0.3 + offsets @ slope, 0.1, 1e-13) == pytest.approx(slope, abs=1e-5)


def test_a_fit_by_hand():
    # Offsets are 1 and -1 in units of the noise, rewards 0.2 and -0.2 beside their mean: 0.4 / (2 + 2 * 1) = 0.1.
    found = fit_slope(np.array([[0.1], [-0.1]]), np.array([0.6, 0.2]), 0.1, 1.0)
    assert found.tolist() == pytest.approx([1.0])  # half of the true 2


def test_the_step_goes_along_the_slope_to_the_radius():
    step = trust_region_step(TrustRegionState(2.0), np.array([3.0, 4.0]), lambda step: 10.0, TRUST)[0]
    assert step.tolist() == pytest.approx([1.2, 1.6])


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
    slope = np.array([2.0, 0.0])  # predicts 2 for the step (1, 0)
    asked = []

    def improvement(step):
        asked.append(step.tolist())
        return actual

    change, state, record = trust_region_step(TrustRegionState(1.0), slope, improvement, TRUST)
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
    slope = np.array([1.0])
    assert trust_region_step(TrustRegionState(2.0), slope, lambda step: 2.0, TRUST)[1].radius == 3.0
    assert trust_region_step(TrustRegionState(0.5), slope, lambda step: -2.0, TRUST)[1].radius == 0.4


def test_a_flat_model_asks_nothing():
    def never(step):
        raise AssertionError

    slope = fit_slope(np.array([[0.1], [-0.1]]), np.array([0.3, 0.3]), 0.1, 1.0)
    change, state, record = trust_region_step(TrustRegionState(1.0), slope, never, TRUST)
    assert (change.tolist(), state.radius, record["accepted"]) == ([0.0], 1.0, False)
