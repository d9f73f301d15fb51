"""Simple ways of answering; expected answers worked out by hand."""

import numpy as np
import pytest

from mlgo.host.log import Header
from mlgo.host.tasks.regalloc import PRIORITIES
from mlgo.host.tasks.task import Setting, all_tasks, get_task
from tests.host.actions import cases

EVICT, PRIORITY = get_task("regalloc-evict").references, get_task("regalloc-priority").references
HEADER = Header(
    (
        *cases.by_column(cases.INT, "mask", "is_hint"),
        *cases.by_column(cases.FLOAT, "nr_broken_hints", "use_def_density"),
        *cases.single(cases.FLOAT, "progress"),
    ),
    *cases.single(cases.INT, "index_to_evict"),
)


def setting(stream="a"):
    return Setting(7, stream, 0.5, "inlining_default")


def payload(mask, density, broken=(0, 0, 0, 0)):
    floats = np.array([*broken, *density, 0.5], np.float32)
    return np.array([*mask, 0, 0, 0, 0], np.int64).tobytes() + floats.tobytes()


def test_columns():
    questions = [
        payload([0, 1, 1, 1], [0, 0.4, 0.2, 0.9]),
        payload([0, 0, 1, 1], [0, 0, 0.3, 0.3]),  # as heavy as the value itself: nothing is evicted
        payload([1, 1, 0, 1], [0.1, 0.2, 0, 0.9], broken=[1, 0.5, 0, 0]),  # lighter, but breaks more hints
        payload([1, 1, 0, 1], [0.9, 0.8, 0, 0.85], broken=[0, 1, 0, 0]),  # breaks none, but is too heavy
        payload([1, 1, 1, 0], [0.9, 0.7, 0.8, 0]),  # nothing is no choice
        payload([1, 1, 0, 1], [0.5, 0.5, 0, 0.9]),  # equal ones: the first
    ]
    lightest, first = EVICT.advisors["lightest"](setting()), EVICT.advisors["first"](setting())
    assert cases.answers(lightest, HEADER, questions) == [2, 3, 1, 1, 1, 0]
    assert cases.answers(first, HEADER, questions) == [1, 2, 0, 0, 0, 0]
    assert cases.answers(EVICT.passive, HEADER, questions) == [3, 3, 3, 3, 2, 3]


def test_random_columns_are_legal_and_repeatable():
    question = payload([0, 1, 0, 1], [0, 0.4, 0, 0.9])
    first, again, other = (
        cases.answers(EVICT.advisors["random"](setting(name)), HEADER, [question] * 60) for name in ("a", "a", "b")
    )
    assert first == again != other
    assert set(first) == {1, 3}


RANGES, a_range = cases.CASES["scalar"].header, cases.a_range


def test_longest_first_and_split_last():
    questions = [a_range(4), a_range(70_000), a_range(70_004), a_range(10**6, 2), a_range(8, 2), a_range(8, 5)]
    found = cases.answers(PRIORITY.advisors["longest"](setting()), RANGES, questions)
    assert sorted(range(6), key=found.__getitem__) == [4, 3, 0, 5, 1, 2]
    assert len({int(one) for one in found}) == 6
    assert PRIORITIES.targets(np.array(found[:1], np.float32)) == pytest.approx(np.log(5) / 7 - 1, abs=1e-5)


def test_equal_and_random_priorities():
    assert cases.answers(PRIORITY.advisors["equal"](setting()), RANGES, [a_range(4), a_range(400)]) == [0.0, 0.0]
    first, again, other = (
        cases.answers(PRIORITY.advisors["random"](setting(name)), RANGES, [a_range(4)] * 100)
        for name in ("a", "a", "b")
    )
    assert first == again != other
    assert len(set(first)) == 100
    assert 0 <= min(first) < 2**20
    assert 2**24 - 2**20 < max(first) <= 2**24


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_the_traced_one_is_a_reference(task):
    references = task.references
    assert references.traced in references.advisors
    assert references.names[0] == "heuristic"
    assert "random" in references.names
