"""Priority: what its guard repairs, and the units of policies."""

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.errors import ProtocolError
from mlgo.host.log import Header
from mlgo.host.tasks.regalloc import MAX_PRIORITY, PriorityGuard
from tests.host.actions import cases

INT, FLOAT = cases.INT, cases.FLOAT
HEADER = cases.CASES["scalar"].header


def priority(value):
    return np.float32(value).tobytes()


def test_answers_in_range_pass():
    guard = PriorityGuard(HEADER)
    for value in (0.0, 0.25, 12345.5, 2.0**24):
        assert guard.answer(cases.a_range(32, 1, 0.5), priority(value)) == priority(value)
    assert guard.num_repaired_answers == 0


@pytest.mark.parametrize(
    ("value", "taken"),
    [(-1, 0), (-1e30, 0), (-np.inf, 0), (np.nan, 0), (1e30, 2**24), (np.inf, 2**24), (2**24 + 2, 2**24)],
)
def test_other_answers_become_the_nearest(value, taken):
    guard = PriorityGuard(HEADER)
    assert guard.answer(cases.a_range(32, 1, 0.5), priority(value)) == priority(taken)
    assert guard.num_repaired_answers == 1


def test_weights_that_are_not_finite():
    guard = PriorityGuard(HEADER)
    fine = cases.a_range(32, 1, 0.5)
    assert guard.observation(fine) is fine
    for weight in (np.inf, np.nan):
        assert guard.observation(cases.a_range(32, 1, weight)) == cases.a_range(32, 1, 1e6)
    assert (guard.num_repaired_observations, guard.num_repaired_answers) == (2, 0)


def test_priorities_are_integers_to_the_compiler():
    """All integers up to the largest priority are numbers of their own in float32; of those above, not all."""
    assert np.float32(MAX_PRIORITY - 1) != MAX_PRIORITY == np.float32(2**24 + 1)


@pytest.mark.parametrize(
    ("features", "advice", "message"),
    [
        (HEADER.features[1:], HEADER.advice, "does not offer feature 'weight'"),
        ((TensorSpec("weight", INT, (1,)),), HEADER.advice, "not of the types"),
        ((TensorSpec("weight", FLOAT, (2,)),), HEADER.advice, "not of the shapes"),
        (HEADER.features, TensorSpec("priority", INT, (1,)), "not of the types"),
        (HEADER.features, TensorSpec("priority", FLOAT, (2,)), "not of the shapes"),
    ],
)
def test_a_header_of_something_else(features, advice, message):
    with pytest.raises(ProtocolError, match=message):
        PriorityGuard(Header(features, advice))
