"""The comparison of decisions, by hand."""

import numpy as np
import pytest

from mlgo.deploy.export.form import Parity, compare_decisions
from mlgo.errors import PolicyError
from mlgo.host.actions import Binary, Categorical
from mlgo.host.tasks.regalloc import PRIORITIES

LOGITS = np.array([2.0, -3.0, 0.00005, -0.00005, 0.0, 0.0001], np.float32)  # the third to fifth are too close to tell
COLUMNS = np.array([[1.0, 3.0, 2.0], [0.0, -np.inf, -np.inf], [2.0, 2.0001, 0.0]], np.float32)


@pytest.mark.parametrize(
    ("actions", "logits", "decisions", "counts"),
    [
        (Binary(), LOGITS, [1, 0, 0, 1, 1, 1], Parity(6, ambiguous=3, mismatches=0, inlined=4)),
        # Nothing else is legal in the second, and two in the third are too close to tell.
        (Categorical("mask"), COLUMNS, [1, 0, 0], Parity(3, ambiguous=2, mismatches=0, inlined=None)),
        (Categorical("mask"), COLUMNS, [1, 0, 1], Parity(3, ambiguous=2, mismatches=0, inlined=None)),
    ],
)
def test_counts_by_hand(actions, logits, decisions, counts):
    assert compare_decisions(actions, logits, np.array(decisions)) == counts


@pytest.mark.parametrize(
    ("actions", "logits", "decisions", "count"),
    [
        (Binary(), LOGITS, [0, 0, 1, 1, 1, 1], 1),
        (Binary(), LOGITS, [1, 1, 0, 0, 0, 1], 1),
        (Binary(), LOGITS, [1, 0, 0, 0, 0, 0], 1),
        (Binary(), LOGITS, [0, 1, 0, 0, 0, 0], 3),
        (Categorical("mask"), COLUMNS, [2, 0, 0], 1),
        (Categorical("mask"), COLUMNS, [1, 0, 2], 1),  # worse than both close ones
        (Categorical("mask"), COLUMNS, [1, 1, 0], 1),  # not legal
        (Categorical("mask"), COLUMNS, [1, 0, 3], 1),  # no column
        (Categorical("mask"), COLUMNS, [-1, 2, -1], 3),
        (PRIORITIES, LOGITS, PRIORITIES.greedy(np, LOGITS) * [1, 1, 1, 1, 1, 0.99], 1),
    ],
)
def test_wrong_decisions_are_an_error(actions, logits, decisions, count):
    with pytest.raises(PolicyError, match=f"differs from the policy in {count} of {len(logits)} decisions"):
        compare_decisions(actions, logits, np.array(decisions))


@pytest.mark.parametrize(
    ("actions", "logits", "message"),
    [
        (Binary(), [1.0, np.nan], "not a number"),
        (Binary(), [], "parity cannot be shown"),
        (Binary(), [0.0, 0.00009], "parity cannot be shown"),
        (PRIORITIES, [0.0, 0.0, 0.0], "parity cannot be shown"),
    ],
)
def test_nothing_to_compare(actions, logits, message):
    with pytest.raises(PolicyError, match=message):
        compare_decisions(actions, np.array(logits, np.float32), np.zeros(len(logits), actions.dtype))
