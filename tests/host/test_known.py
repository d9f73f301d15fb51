"""Known questions, against compilers that are lists."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ReplayMismatch
from mlgo.host.conversation import AnswerPrefix, KnownContext, KnownQuestions


def question(context: int, number: int) -> bytes:
    return b"%d/%d" % (context, number)


def context(place: int, num_known: int, is_whole: bool) -> KnownContext:
    checks = tuple(zlib.crc32(question(place, number)) for number in range(num_known))
    return KnownContext(f"f{place}", checks, bytes([place]) * num_known, is_whole)


MODULE = AnswerPrefix((context(0, 1, True), context(1, 2, False), context(2, 0, True), context(3, 1, True)))


def test_answers_wait_for_the_end_of_a_context_of_which_only_a_beginning_is_known():
    known = KnownQuestions(MODULE)
    assert (known.unsent, known.num_awaited) == (bytes([0, 1, 1]), 3)
    known.unsent = b""  # sent
    assert known.enter("f0") == bytes([0])
    assert known.covers(question(0, 0))
    assert known.enter("f1") == bytes([1, 1])
    assert [known.covers(question(1, number)) for number in range(4)] == [True, True, False, False]
    assert (known.unsent, known.num_awaited) == (b"", 0)
    assert known.enter("f2") == b""
    assert (known.unsent, known.num_awaited) == (bytes([3]), 1)
    assert known.enter("f3") == bytes([3])
    assert known.covers(question(3, 0))
    assert known.enter("f3") == b""  # resumed
    known.end()
    assert MODULE.num_questions == 4


ALL = ["f0", (0, 0), "f1", (1, 0), (1, 1), "f2", "f3", (3, 0)]


@pytest.mark.parametrize(
    ("talk", "message"),
    [
        (["f1"], "context 0 is 'f1', not 'f0'"),
        (["f0", (0, 1)], "question 0 of f0 is not the known one"),
        (["f0", (0, 0), (0, 1)], "more than the 1 known ones of f0"),
        (["f0", "f1"], "only 0 of 1 known questions of f0"),
        (["f0", (0, 0), None], "only 1 of 4 contexts"),
        ([*ALL, "f4"], "context 4 is 'f4', not the end"),
    ],
)
def test_what_differs_is_a_hard_error(talk, message):
    """Names of contexts, questions by context and number, and the end."""
    known = KnownQuestions(MODULE)
    with pytest.raises(ReplayMismatch, match=message):
        for one in talk:
            known.end() if one is None else known.enter(one) if isinstance(one, str) else known.covers(question(*one))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8))
def test_answers_reach_the_compiler_in_order_whatever_is_known(functions):
    """A compiler that takes its answers from a pipe; those that are not known are given when they are asked for."""
    contexts = [context(place, num_known, not num_more) for place, (num_known, num_more) in enumerate(functions)]
    known, pipe, recorded = KnownQuestions(AnswerPrefix(tuple(contexts))), [], []

    def send() -> None:
        pipe.extend(known.unsent)
        known.unsent = b""

    for place, (num_known, num_more) in enumerate(functions):
        recorded += known.enter(f"f{place}")
        send()
        for number in range(num_known + num_more):
            assert known.covers(question(place, number)) == (number < num_known)
            if number >= num_known:
                assert (pipe, known.num_awaited) == ([], 0)  # nothing that was meant for another question
                pipe.append(place)
                recorded.append(place)
            assert pipe.pop(0) == place
    known.end()
    assert pipe == []
    assert recorded == [place for place, counts in enumerate(functions) for _ in range(sum(counts))]
