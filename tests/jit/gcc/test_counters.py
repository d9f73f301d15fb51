"""Intervals of debug counters, and the table that GCC prints."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import RemarkError
from mlgo.jit.gcc.counters import intervals, read_counts

TABLE = """\
***dbgcnt: lower limit 1 reached for pre_insn.***
  counter name                  counter value     closed intervals
-----------------------------------------------------------------
  ccp                           1809              unset
  pre_insn                      17                [1, 3], [7, 7]
  hoist                         0                 [0, 0]
"""


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], "0-0"), ([1], "1-1"), ([7, 3, 1, 2], "1-3:7-7"), ([2, 4, 6], "2-2:4-4:6-6"), ([5, 5, 6], "5-6")],
)
def test_intervals_by_hand(numbers, text):
    assert intervals(numbers) == text


@given(st.lists(st.integers(1, 200)))
def test_intervals_hold_exactly_the_numbers_and_are_as_few_as_can_be(numbers):
    pairs = [tuple(map(int, pair.split("-"))) for pair in intervals(numbers).split(":")]
    if not numbers:
        assert pairs == [(0, 0)]
        return
    assert [number for first, last in pairs for number in range(first, last + 1)] == sorted(set(numbers))
    assert all(before[1] + 1 < after[0] for before, after in pairwise(pairs))


@pytest.mark.parametrize("number", [0, -3])
def test_counters_start_at_one(number):
    with pytest.raises(ValueError, match=f"start at 1, not at {number}"):
        intervals([4, number])


def test_table():
    assert read_counts(TABLE) == {"ccp": 1809, "pre_insn": 17, "hoist": 0}
    with pytest.raises(RemarkError, match="no table of its debug counters"):
        read_counts("cc1: warning: something\n")
