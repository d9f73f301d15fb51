"""Which functions an inlining decision may change, so that many decisions are judged by one compile.

A call of B in A that is inlined, or no longer, changes A; B, which may disappear; every function that A was inlined
into; and the functions that B calls, which may disappear with it. Decisions that reach no common function do not
disturb each other, but for what the compiler decides otherwise elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from mlgo.host.session import Credit

Functions = frozenset[int]
"""Hashes of names, see `Credit.names`."""


class Reach:
    """What the decisions of one compile may change.

    Args:
        credit: functions of the decisions.
        answers: int64 [num_questions].
    """

    def __init__(self, credit: Credit, answers: np.ndarray) -> None:
        names = credit.names.tolist()
        self._callers = [names[number] for number in credit.callers.tolist()]
        self._callees = [names[number] for number in credit.callees.tolist()]
        self._inlined_into: dict[int, set[int]] = defaultdict(set)
        self._calls: dict[int, set[int]] = defaultdict(set)
        for caller, callee, answer in zip(self._callers, self._callees, answers.tolist(), strict=True):
            self._calls[caller].add(callee)
            if answer:
                self._inlined_into[callee].add(caller)

    def of(self, questions: Iterable[int]) -> Functions:
        """Functions that the answers to some questions may change."""
        found: set[int] = set()
        for number in questions:
            caller, callee = self._callers[number], self._callees[number]
            found |= {callee} | self._calls[callee] | self._around(caller)
        return frozenset(found)

    def _around(self, function: int) -> set[int]:
        """A function and all that it was inlined into, directly or not."""
        found, left = {function}, [function]
        while left:
            fresh = self._inlined_into[left.pop()] - found
            found |= fresh
            left += fresh
        return found


def sizes_of(credit: Credit) -> dict[int, float]:
    """Bytes of each function that the object has."""
    pairs = zip(credit.names.tolist(), credit.sizes.tolist(), strict=True)
    return {name: size for name, size in pairs if size >= 0}


def saved(before: Mapping[int, float], after: Mapping[int, float], functions: Functions) -> float:
    """Bytes that functions have lost from one compile to another, see `sizes_of`; one that is gone has lost all."""
    return sum(before.get(one, 0.0) - after.get(one, 0.0) for one in sorted(functions))
