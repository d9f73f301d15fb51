"""The comparison of decisions, by hand."""

import numpy as np
import pytest

from mlgo.core.errors import PolicyError
from mlgo.export.parity import Parity, compare_decisions

LOGITS = np.array([2.0, -3.0, 0.00005, -0.00005, 0.0, 0.0001], np.float32)


def test_counts_by_hand():
    parity = compare_decisions(LOGITS, np.array([1, 0, 0, 1, 1, 1]))  # the third to fifth are too close to tell
    assert parity == Parity(questions=6, ambiguous=3, mismatches=0, inlined=4)
    assert parity.record() == {"questions": 6, "ambiguous": 3, "mismatches": 0, "inlined": 4}


@pytest.mark.parametrize(
    ("decisions", "count"),
    [([0, 0, 1, 1, 1, 1], 1), ([1, 1, 0, 0, 0, 1], 1), ([1, 0, 0, 0, 0, 0], 1), ([0, 1, 0, 0, 0, 0], 3)],
)
def test_wrong_decisions_are_an_error(decisions, count):
    with pytest.raises(PolicyError, match=f"differs from the policy in {count} of 6 decisions"):
        compare_decisions(LOGITS, np.array(decisions))


def test_an_output_that_is_not_a_number_is_an_error():
    with pytest.raises(PolicyError, match="not a number"):
        compare_decisions(np.array([1.0, np.nan], np.float32), np.array([1, 0]))


@pytest.mark.parametrize("logits", [[], [0.0, 0.00009]])
def test_nothing_to_compare(logits):
    with pytest.raises(PolicyError, match="parity cannot be shown"):
        compare_decisions(np.array(logits, np.float32), np.zeros(len(logits), np.int64))
