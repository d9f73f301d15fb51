"""The comparison of decisions, by hand."""

import numpy as np
import pytest

from mlgo.deploy.export.form import Parity, compare_decisions
from mlgo.errors import PolicyError
from mlgo.host.actions import Binary, Categorical
from mlgo.host.tasks.regalloc import PRIORITIES

LOGITS = np.array([2.0, -3.0, 0.00005, -0.00005, 0.0, 0.0001], np.float32)


def test_counts_by_hand():
    parity = compare_decisions(
        Binary(), LOGITS, np.array([1, 0, 0, 1, 1, 1])
    )  # the third to fifth are too close to tell
    assert parity == Parity(questions=6, ambiguous=3, mismatches=0, inlined=4)


@pytest.mark.parametrize(
    ("decisions", "count"),
    [([0, 0, 1, 1, 1, 1], 1), ([1, 1, 0, 0, 0, 1], 1), ([1, 0, 0, 0, 0, 0], 1), ([0, 1, 0, 0, 0, 0], 3)],
)
def test_wrong_decisions_are_an_error(decisions, count):
    with pytest.raises(PolicyError, match=f"differs from the policy in {count} of 6 decisions"):
        compare_decisions(Binary(), LOGITS, np.array(decisions))


def test_an_output_that_is_not_a_number_is_an_error():
    with pytest.raises(PolicyError, match="not a number"):
        compare_decisions(Binary(), np.array([1.0, np.nan], np.float32), np.array([1, 0]))


@pytest.mark.parametrize("logits", [[], [0.0, 0.00009]])
def test_nothing_to_compare(logits):
    with pytest.raises(PolicyError, match="parity cannot be shown"):
        compare_decisions(Binary(), np.array(logits, np.float32), np.zeros(len(logits), np.int64))


COLUMNS = np.array([[1.0, 3.0, 2.0], [0.0, -np.inf, -np.inf], [2.0, 2.0001, 0.0]], np.float32)


@pytest.mark.parametrize("third", [0, 1])
def test_columns_by_hand(third):
    # Nothing else is legal in the second, and two in the third are too close to tell.
    parity = compare_decisions(Categorical("mask"), COLUMNS, np.array([1, 0, third]))
    assert parity == Parity(questions=3, ambiguous=2, mismatches=0, inlined=None)


@pytest.mark.parametrize(
    ("decisions", "count"),
    [([2, 0, 0], 1), ([1, 0, 2], 1), ([1, 1, 0], 1), ([1, 0, 3], 1), ([-1, 2, -1], 3)],
    ids=["worse", "worse than both close ones", "not legal", "no column", "all"],
)
def test_wrong_columns_are_an_error(decisions, count):
    with pytest.raises(PolicyError, match=f"differs from the policy in {count} of 3 decisions"):
        compare_decisions(Categorical("mask"), COLUMNS, np.array(decisions))


def test_priorities_must_differ():
    with pytest.raises(PolicyError, match="parity cannot be shown"):
        compare_decisions(PRIORITIES, np.zeros(3, np.float32), np.zeros(3, np.float32))
