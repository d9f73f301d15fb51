"""What the guards of register allocation repair."""

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.errors import ProtocolError
from mlgo.host.log import Header
from mlgo.host.tasks.regalloc import MAX_PRIORITY, EvictionGuard, PriorityGuard
from tests.host.actions.cases import CASES, FLOAT, INT, a_range

EVICT, PRIORITY = CASES["categorical"].header, CASES["scalar"].header


def eviction(mask, density):
    return np.array([*mask, 7, 7, 7, 7], np.int64).tobytes() + np.array([*density, 0.5], np.float32).tobytes()


def column(number):
    return number.to_bytes(8, "little", signed=True)


def priority(value):
    return np.float32(value).tobytes()


@pytest.mark.parametrize("given", [1, 3, 0, 2, -1, 4, 77, 2**62])
@pytest.mark.parametrize(("mask", "last"), [([0, 1, 0, 1], 3), ([0, 1, 0, 0], 1)])
def test_other_columns_than_legal_ones_become_the_last_legal_one(given, mask, last):
    guard, is_legal = EvictionGuard(EVICT), given in (1, last)
    assert guard.answer(eviction(mask, [0, 1, 0, 1]), column(given)) == column(given if is_legal else last)
    assert guard.num_repaired_answers == (not is_legal)


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        *((value, value) for value in (0.0, 0.25, 12345.5, 2.0**24)),
        *((value, 0) for value in (-1, -1e30, -np.inf, np.nan)),
        *((value, 2**24) for value in (1e30, np.inf, 2**24 + 2)),
    ],
)
def test_other_priorities_than_those_in_range_become_the_nearest(value, taken):
    guard = PriorityGuard(PRIORITY)
    assert guard.answer(a_range(32), priority(value)) == priority(taken)
    assert guard.num_repaired_answers == (value != taken)


@pytest.mark.parametrize(
    ("guard", "fine", "broken", "repaired"),
    [
        (
            EvictionGuard(EVICT),
            eviction([1, 1, 1, 1], [0.0, 1.0, 0.5, 0.0]),
            eviction([1, 1, 1, 1], [0.0, np.nan, 0.0, np.nan]),
            eviction([1, 1, 1, 1], [0.0, 1.0, 0.0, 1.0]),
        ),
        *((PriorityGuard(PRIORITY), a_range(32), a_range(32, 1, bad), a_range(32, 1, 1e6)) for bad in (np.inf, np.nan)),
    ],
)
def test_features_that_are_not_finite_become_so(guard, fine, broken, repaired):
    assert guard.observation(fine) is fine
    assert guard.observation(broken) == repaired
    assert (guard.num_repaired_observations, guard.num_repaired_answers) == (1, 0)


def test_priorities_are_integers_to_the_compiler():
    """All integers up to the largest priority are numbers of their own in float32; of those above, not all."""
    assert np.float32(MAX_PRIORITY - 1) != MAX_PRIORITY == np.float32(2**24 + 1)


@pytest.mark.parametrize(
    ("guard", "features", "advice", "message"),
    [
        (EvictionGuard, EVICT.features[1:], EVICT.advice, "'mask'"),
        (EvictionGuard, (TensorSpec("mask", INT, (1,)), *EVICT.features[1:]), EVICT.advice, "not of the types"),
        (PriorityGuard, PRIORITY.features[1:], PRIORITY.advice, "does not offer feature 'weight'"),
        (PriorityGuard, (TensorSpec("weight", INT, (1,)),), PRIORITY.advice, "not of the types"),
        (PriorityGuard, (TensorSpec("weight", FLOAT, (2,)),), PRIORITY.advice, "not of the shapes"),
        (PriorityGuard, PRIORITY.features, TensorSpec("priority", INT, (1,)), "not of the types"),
        (PriorityGuard, PRIORITY.features, TensorSpec("priority", FLOAT, (2,)), "not of the shapes"),
    ],
)
def test_a_header_of_something_else(guard, features, advice, message):
    with pytest.raises(ProtocolError, match=message):
        guard(Header(features, advice))
