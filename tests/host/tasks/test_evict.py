"""Eviction: what its guard repairs."""

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.errors import ProtocolError
from mlgo.host.log import Header
from mlgo.host.tasks.regalloc import EvictionGuard
from tests.host.actions import cases

HEADER = cases.CASES["categorical"].header


def payload(mask, density, hints=(7, 7, 7, 7)):
    parts = [np.array(mask, np.int64), np.array(hints, np.int64), np.array([*density, 0.5], np.float32)]
    return b"".join(part.tobytes() for part in parts)


def column(number):
    return number.to_bytes(8, "little", signed=True)


def test_legal_answers_pass():
    guard = EvictionGuard(HEADER)
    for legal in (1, 3):
        assert guard.answer(payload([0, 1, 0, 1], [0, 1, 0, 1]), column(legal)) == column(legal)
    assert guard.num_repaired_answers == 0


@pytest.mark.parametrize("illegal", [0, 2, -1, 4, 77, 2**62])
@pytest.mark.parametrize(("mask", "taken"), [([0, 1, 0, 1], 3), ([0, 1, 0, 0], 1)])
def test_other_answers_become_the_last_legal_column(illegal, mask, taken):
    guard = EvictionGuard(HEADER)
    assert guard.answer(payload(mask, [0, 1, 0, 1]), column(illegal)) == column(taken)
    assert guard.num_repaired_answers == 1


def test_densities_that_are_no_numbers_become_one():
    guard = EvictionGuard(HEADER)
    fine = payload([1, 1, 1, 1], [0.0, 1.0, 0.5, 0.0])
    assert guard.observation(fine) is fine
    broken = payload([1, 1, 1, 1], [0.0, np.nan, 0.0, np.nan])
    assert guard.observation(broken) == payload([1, 1, 1, 1], [0.0, 1.0, 0.0, 1.0])
    assert (guard.num_repaired_observations, guard.num_repaired_answers) == (1, 0)


def test_a_header_of_something_else():
    features = tuple(spec for spec in HEADER.features if spec.name != "mask")
    with pytest.raises(ProtocolError, match="'mask'"):
        EvictionGuard(Header(features, HEADER.advice))
    wrong = (TensorSpec("mask", np.dtype(np.int64), (1,)), *features)
    with pytest.raises(ProtocolError, match="not of the types"):
        EvictionGuard(Header(wrong, HEADER.advice))
