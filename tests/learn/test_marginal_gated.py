"""Several estimates joined into one network: the same as the formula says."""

import numpy as np
import pytest

from mlgo.base.seeding import generator
from mlgo.learn.marginal.ensemble import gated_ensemble, gated_members, gated_shape, steep
from mlgo.policy.network import Architecture, flatten, logits


def estimate(sign, constant):
    """One hidden layer of two units: ``sign * x0 + constant``."""
    return flatten(
        [
            (np.array([[1.0, -1.0], [0.0, 0.0]]), np.zeros(2)),
            (np.array([[sign], [-sign]]), np.array([constant])),
        ]
    )


SHAPE = Architecture((2, 2, 1))
HEURISTIC = (np.array([[0.0], [100.0]], np.float32), np.zeros(1, np.float32))  # inlines where x1 is positive


def output(members, shape, caution, inputs):
    joint = gated_shape(shape, len(members))
    weights = gated_ensemble(members, shape, HEURISTIC, caution)
    assert weights.shape == (joint.num_params,)
    return logits(joint.unflatten(weights), np.asarray(inputs, np.float32))


def test_by_hand():
    # Estimates 3 and 1 everywhere (x0 = 0): mean 2, mean absolute deviation 1.
    members = [estimate(1.0, 3.0), estimate(1.0, 1.0)]
    yes, no = [0.0, 1.0], [0.0, -1.0]
    assert output(members, SHAPE, 0.0, [yes, no]).tolist() == pytest.approx([2.0, 2.0], abs=0.05)
    assert output(members, SHAPE, 1.5, [yes, no]).tolist() == pytest.approx([3.5, 0.5], abs=0.05)
    assert output(members, SHAPE, 3.0, [yes, no]).tolist() == pytest.approx([5.0, -1.0], abs=0.05)


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_equals_the_formula(hidden, count):
    shape = Architecture((2, *hidden, 1))
    rng = generator(1, "caution", count, *hidden)
    members = [rng.standard_normal(shape.num_params).astype(np.float32) for _ in range(count)]
    inputs = rng.uniform(-3, 3, (500, 2)).astype(np.float32)
    inputs = inputs[np.abs(inputs[:, 1]) > 0.02]  # where the heuristic is sure
    each = np.stack([logits(shape.unflatten(member), inputs) for member in members])
    mean, deviation = each.mean(axis=0), np.abs(each - each.mean(axis=0)).mean(axis=0)
    expected = mean + 2.0 * np.sign(inputs[:, 1]) * deviation
    rounding = 0.1 if len(hidden) == 1 else 0.002  # a second layer clips the heuristic's answer once more
    assert output(members, shape, 2.0, inputs) == pytest.approx(expected, abs=rounding)


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
def test_members_come_back(hidden):
    shape = Architecture((2, *hidden, 1))
    rng = generator(1, "members", *hidden)
    members = rng.standard_normal((3, shape.num_params)).astype(np.float32)
    joint = gated_ensemble(list(members), shape, HEURISTIC, 0.75)
    assert gated_members(joint, shape, 3) == pytest.approx(members, abs=1e-6)


def test_a_steep_clone_answers_as_before():
    clone = (np.array([[0.5], [-1.0]], np.float32), np.array([0.1], np.float32))
    inputs = generator(2, "steep").uniform(-2, 2, (1000, 2)).astype(np.float32)
    steeper = steep(clone, inputs)
    before, after = logits([clone], inputs), logits([steeper], inputs)
    assert np.array_equal(before > 0, after > 0)
    assert np.median(np.abs(after)) == pytest.approx(50.0, rel=1e-3)
