"""The order of a search's compiles, on modules whose size is a formula of the answers."""

from collections.abc import Callable

import numpy as np

from mlgo.base.seeding import generator
from mlgo.base.types import TensorSpec
from mlgo.evaluate import CompileOutcome
from mlgo.evaluate.search import AffectedFunctions, saved, search, sizes_of
from mlgo.host.log import Header
from mlgo.host.session import CallAttribution, CompileResult
from mlgo.host.tasks.task import ConstantAdvisor
from mlgo.policy.policy import OverridingAdvisor
from tests.fakes.scores import scores

INT64 = np.dtype(np.int64)
HEADER = Header((TensorSpec("a", INT64, (1,)),), TensorSpec("decision", INT64, (1,)))
NEVER = OverridingAdvisor(ConstantAdvisor(0))


def answers_of(advisor, num_questions: int) -> tuple[int, ...]:
    payloads = np.arange(num_questions, dtype=np.int64)[:, None].view(np.uint8)
    return tuple(advisor.decide_for(HEADER)(payloads).tolist())


def rounds(size_of: Callable, num_questions: int, budget: int, flips: int = 3, seed: int = 0):
    """Run a search on questions that hold their own number; the answers it compiles, round by round, and its result."""

    def ask(advisor):
        payloads = np.arange(num_questions, dtype=np.int64)[:, None].view(np.uint8)
        return HEADER, payloads, np.array(answers_of(advisor, num_questions))

    def in_order(header, observations, answers):
        return -observations[:, 0]

    def outcome(answers):
        size = size_of(*answers)
        return CompileOutcome(None, "exit") if size is None else CompileOutcome(CompileResult(scores(0, size), "", 0.0))

    return driven(
        search([NEVER], ask, in_order, "text_bytes", budget, flips, generator(seed, "test")), outcome, num_questions
    )


def driven(one, outcome, num_questions):
    """Do the compiles that a search asks for."""
    asked, advisors = [], next(one)
    while True:
        asked.append([answers_of(advisor, num_questions) for advisor in advisors])
        try:
            advisors = one.send([outcome(answers) for answers in asked[-1]])
        except StopIteration as end:
            return asked, end.value


def of_functions(savings, apart):
    """A search of as many calls as there are savings, each in a caller of its own; the callee is one, or one for each.

    Returns:
        Answers by round, and the result.
    """
    num = len(savings)
    names = np.arange(2 * num if apart else num + 1, dtype=np.uint64)
    callers, callees = np.arange(num, dtype=np.int32), np.arange(num, 2 * num if apart else num + 1, dtype=np.int32)

    def ask(advisor):
        payloads = np.arange(num, dtype=np.int64)[:, None].view(np.uint8)
        return HEADER, payloads, np.array(answers_of(advisor, num))

    def outcome(answers):
        sizes = np.full(len(names), 10.0, np.float32)
        sizes[:num] -= np.array(answers) * savings
        credit = CallAttribution(names, sizes, callers, np.resize(callees, num))
        return CompileOutcome(CompileResult(scores(0, int(sizes.sum())), "", 0.0, credit=credit))

    one = search([NEVER], ask, lambda *_: -np.arange(num), "text_bytes", 12, 2, generator(0, "test"))
    return driven(one, outcome, num)


def test_calls_of_functions_of_their_own_are_tried_in_one_compile():
    asked, result = of_functions([-3, 5, -1, 2], apart=True)
    assert asked[:3] == [[(0, 0, 0, 0)], [(1, 1, 1, 1)], [(0, 1, 0, 1), (0, 1, 0, 0)]]  # the better half is one of two
    assert result.best.result.scores["text_bytes"] == 80 - 5 - 2


def test_calls_of_one_function_are_tried_apart():
    asked, result = of_functions([-3, 5, -1, 2], apart=False)
    assert asked[1] == [(1, 0, 0, 0), (0, 1, 0, 0)]
    assert result.best.result.scores["text_bytes"] == 50 - 5 - 2


def test_flips_that_help_are_combined():
    asked, result = rounds(lambda a, b, c, d: 100 - 5 * a + b - 9 * c - d, 4, 8)
    assert asked == [
        [(0, 0, 0, 0)],
        [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0)],  # a and c help, c more
        [(1, 0, 1, 0)],
        [(1, 0, 1, 1)],  # the last that has not been tried
        [(0, 0, 1, 1), (1, 1, 1, 1)],  # it helped, so another pass, as far as the budget goes
    ]
    assert (result.best.result.scores["text_bytes"], result.num_compiles) == (85, 8)


def test_the_better_half_is_tried_too():
    # Any two of the flips help more than one, but all four get into each other's way.
    def size_of(*answers):
        return 100 - sum(answers) * (4 - sum(answers)) - answers[0]

    asked, result = rounds(size_of, 4, 7, flips=4)
    assert asked[2] == [(1, 1, 1, 1), (1, 1, 0, 0)]
    assert result.best.result.scores["text_bytes"] == 95


def test_groups_are_flipped_when_no_single_flip_helps():
    def size_of(*answers):
        return 90 if answers[1] and answers[4] else 100 + sum(answers)

    asked, result = rounds(size_of, 5, 60)
    assert all(sum(answers) == 1 for one in asked[1:3] for answers in one)
    assert all(2 <= sum(answers) <= 4 for answers in asked[3])
    assert result.best.result.scores["text_bytes"] == 90
    assert rounds(size_of, 5, 60) == (asked, result)
    assert rounds(size_of, 5, 60, seed=1)[0] != asked


def test_failures_are_passed_over():
    _, result = rounds(lambda a, b: None if a else 100 - b, 2, 10)
    assert result.best.result.scores["text_bytes"] == 99
    asked, result = rounds(lambda a, b: None, 2, 10)
    assert (len(asked), result.best, result.num_compiles) == (1, None, 1)


def test_a_module_without_questions_needs_no_search():
    asked, result = rounds(lambda: 100, 0, 10)
    assert (asked, result.num_compiles, result.best.result.scores["text_bytes"]) == ([[()]], 1, 100)


MAIN, F, G, H = 1, 2, 3, 4


def credit(calls, sizes=(0.0, 0.0, 0.0, 0.0)):
    """Of calls as pairs of caller and callee, by name; functions are numbered by their names."""
    callers, callees = (np.array(side, np.int32) - 1 for side in zip(*calls, strict=True))
    return CallAttribution(np.array([MAIN, F, G, H], np.uint64), np.array(sizes, np.float32), callers, callees)


def test_caller_callee_and_what_the_callee_calls():
    reach = AffectedFunctions(credit([(MAIN, F), (F, G), (G, H)]), np.array([0, 0, 0]))
    assert reach.of([0]) == {MAIN, F, G}
    assert reach.of([1]) == {F, G, H}
    assert reach.of([2]) == {G, H}
    assert reach.of([0, 2]) == {MAIN, F, G, H}


def test_what_the_caller_was_inlined_into():
    calls = [(G, H), (F, G), (MAIN, F)]
    assert AffectedFunctions(credit(calls), np.array([0, 1, 1])).of([0]) == {G, H, F, MAIN}
    assert AffectedFunctions(credit(calls), np.array([0, 0, 1])).of([0]) == {G, H}
    assert AffectedFunctions(credit([(F, G), (G, F)]), np.array([1, 1])).of([0]) == {F, G}  # they call each other


def test_saved_by_hand():
    before = sizes_of(credit([(MAIN, F)], [30, 20, -1, 5]))
    after = sizes_of(credit([(MAIN, F)], [44, -1, 7, 5]))
    assert before == {MAIN: 30, F: 20, H: 5}
    assert saved(before, after, frozenset({MAIN, F})) == 6  # 20 bytes gone, 14 more
    assert saved(before, after, frozenset({G})) == -7
    assert saved(before, after, frozenset({H})) == 0
