"""Which functions a decision may change."""

import numpy as np

from mlgo.evaluate.search import AffectedFunctions, saved, sizes_of
from mlgo.host.session import Credit

MAIN, F, G, H = 1, 2, 3, 4


def credit(calls, sizes=(0.0, 0.0, 0.0, 0.0)):
    """Of calls as pairs of caller and callee, by name; functions are numbered by their names."""
    callers, callees = (np.array(side, np.int32) - 1 for side in zip(*calls, strict=True))
    return Credit(np.array([MAIN, F, G, H], np.uint64), np.array(sizes, np.float32), callers, callees)


def test_caller_callee_and_what_the_callee_calls():
    reach = AffectedFunctions(credit([(MAIN, F), (F, G), (G, H)]), np.array([0, 0, 0]))
    assert reach.of([0]) == {MAIN, F, G}
    assert reach.of([1]) == {F, G, H}
    assert reach.of([2]) == {G, H}
    assert reach.of([0, 2]) == {MAIN, F, G, H}


def test_what_the_caller_was_inlined_into():
    reach = AffectedFunctions(credit([(G, H), (F, G), (MAIN, F)]), np.array([0, 1, 1]))
    assert reach.of([0]) == {G, H, F, MAIN}
    unlike = AffectedFunctions(credit([(G, H), (F, G), (MAIN, F)]), np.array([0, 0, 1]))
    assert unlike.of([0]) == {G, H}


def test_functions_that_call_each_other():
    reach = AffectedFunctions(credit([(F, G), (G, F)]), np.array([1, 1]))
    assert reach.of([0]) == {F, G}


def test_saved_by_hand():
    before = sizes_of(credit([(MAIN, F)], [30, 20, -1, 5]))
    after = sizes_of(credit([(MAIN, F)], [44, -1, 7, 5]))
    assert before == {MAIN: 30, F: 20, H: 5}
    assert saved(before, after, frozenset({MAIN, F})) == 6  # 20 bytes gone, 14 more
    assert saved(before, after, frozenset({G})) == -7
    assert saved(before, after, frozenset({H})) == 0
