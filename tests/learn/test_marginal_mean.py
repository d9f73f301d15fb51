"""The mean of several estimates as one network with a group for each."""

import numpy as np
import pytest

from mlgo.base.seeding import generator
from mlgo.learn.marginal.ensemble import mean_members, mean_of, mean_shape
from mlgo.policy.network import Architecture, logits


def drawn(hidden, count):
    shape = Architecture((2, *hidden, 1))
    rng = generator(1, "mean", count, *hidden)
    return shape, rng.standard_normal((count, shape.num_params)).astype(np.float32)


def test_by_hand():
    # 2 relu(x) + 1, and 4 relu(-x) - 3: for x = 5 the mean is (11 - 3) / 2, for x = -1 it is (1 + 1) / 2.
    members = [np.array(weights, np.float32) for weights in ([1, 0, 2, 1], [-1, 0, 4, -3])]
    joint = mean_of(members, Architecture((1, 1, 1)))
    assert mean_shape(Architecture((1, 1, 1)), 2) == Architecture((1, 2, 1), groups=2)
    assert joint.tolist() == [1, -1, 0, 0, 1, 2, -1]
    layers = Architecture((1, 2, 1), groups=2).unflatten(joint)
    assert logits(layers, np.array([[5.0], [-1.0]], np.float32)).tolist() == [4.0, 1.0]


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
@pytest.mark.parametrize("count", [1, 2, 20])
def test_equals_the_mean(hidden, count):
    shape, members = drawn(hidden, count)
    joint = mean_shape(shape, count)
    inputs = generator(2, "mean").uniform(-3, 3, (500, 2)).astype(np.float32)
    each = np.stack([logits(shape.unflatten(member), inputs) for member in members])
    found = logits(joint.unflatten(mean_of(members, shape)), inputs)
    assert found == pytest.approx(each.mean(axis=0), abs=1e-4)


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
def test_members_come_back_but_for_their_last_bias(hidden):
    shape, members = drawn(hidden, 3)
    found = mean_members(mean_of(members, shape), shape, 3)
    assert found[:, :-1] == pytest.approx(members[:, :-1], abs=1e-6)
    assert found[:, -1] == pytest.approx([members[:, -1].mean()] * 3, abs=1e-6)
