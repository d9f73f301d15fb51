"""Response trees, on a toy compiler and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ReplayMismatch
from mlgo.pool.response_tree import ModuleLeaf, ResponseTree
from tests.fakes.scores import sizes
from tests.pool.toy_trees import WIDTH, decide_by, run

POLICIES = st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=30)
SEEDS = st.integers(0, 50)


def rows(*values: int) -> np.ndarray:
    return np.array([[value] for value in values], np.uint8)


def answers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def leaf(size: int) -> ModuleLeaf:
    return ModuleLeaf(sizes(size, size), f"{size:064x}", False)


def add(tree: ResponseTree, observations: np.ndarray, given: np.ndarray, result: ModuleLeaf) -> None:
    branch = tree.branch_of(observations, given, result)
    assert branch is not None
    tree.add(branch)


def test_two_compiles_by_hand():
    tree = ResponseTree(1)
    add(tree, rows(10, 20, 30), answers(0, 1, 0), leaf(100))
    add(tree, rows(10, 20, 40, 50), answers(0, 0, 1, 1), leaf(90))
    assert (tree.num_nodes, len(tree.leaves)) == (5, 2)  # the second compile shares two questions
    first = tree.walk(lambda seen: answers(*[{10: 0, 20: 1, 30: 0}[int(x)] for x in seen[:, 0]]))
    assert first.leaf == leaf(100)
    assert first.nodes.tolist() == [0, 1, 2]
    second = tree.walk(lambda seen: answers(*[int(x in (40, 50)) for x in seen[:, 0]]))
    assert second.leaf == leaf(90)
    assert second.nodes.tolist() == [0, 1, 3, 4]
    assert second.answers.tolist() == [0, 0, 1, 1]
    off = tree.walk(lambda seen: np.ones(len(seen), np.int64))
    assert off.leaf is None
    assert (off.nodes.tolist(), off.answers.tolist()) == ([0], [1])


def test_a_module_without_questions():
    tree = ResponseTree(1)
    assert tree.walk(decide_by(0)).leaf is None
    add(tree, np.zeros((0, 1), np.uint8), answers(), leaf(7))
    assert tree.walk(decide_by(0)).leaf == leaf(7)
    assert tree.branch_of(np.zeros((0, 1), np.uint8), answers(), leaf(7)) is None


def test_an_answer_after_which_nothing_more_is_asked():
    tree = ResponseTree(1)
    add(tree, rows(1, 2), answers(0, 0), leaf(5))
    add(tree, rows(1), answers(1), leaf(6))
    assert tree.walk(lambda seen: np.ones(len(seen), np.int64)).leaf == leaf(6)


@given(POLICIES, SEEDS)
def test_what_is_known_is_found_and_nothing_else(policies, seed):
    tree, partly, known = ResponseTree(WIDTH), ResponseTree(WIDTH), {}
    for policy in policies:
        observations, given_answers, result = run(policy, seed)
        walk, path = tree.walk(decide_by(policy)), tuple(given_answers.tolist())
        assert (walk.leaf is not None) == (path in known)
        np.testing.assert_array_equal(walk.answers, given_answers[: len(walk.answers)])
        np.testing.assert_array_equal(tree.observations_at(walk.nodes), observations[: len(walk.nodes)])
        place, nodes = tree.beginning(), []  # one answer after the other goes the same way
        while isinstance(place, int):
            nodes.append(place)
            place = tree.following(place, int(decide_by(policy)(tree.observations_at(np.array([place])))[0]))
        assert (nodes, place) == (walk.nodes.tolist(), walk.leaf)
        branch = tree.branch_of(observations, given_answers, result)
        # Observations that the session has compared with the tree may be left out.
        short = partly.branch_of(observations[len(nodes) :], given_answers, result, len(nodes))
        assert (branch is None) == (short is None) == (path in known)
        if branch is None or short is None:
            assert walk.leaf == result
            continue
        np.testing.assert_array_equal(branch.observations, short.observations)
        assert (branch.node, branch.answer) == (short.node, short.answer)
        tree.add(branch)
        partly.add(short)
        known[path] = observations, result
        assert tree.walk(decide_by(policy)).leaf == result
    found = {tuple(walk.answers.tolist()): walk for walk in tree.compiles()}
    assert found.keys() == known.keys()
    assert len(tree.leaves) == len(list(tree.compiles())) == len(known)
    for path, (observations, result) in known.items():
        assert found[path].leaf == result
        np.testing.assert_array_equal(tree.observations_at(found[path].nodes), observations)


@pytest.mark.parametrize(
    ("observations", "given_answers", "result", "message"),
    [
        (rows(1, 9, 3), answers(0, 0, 0), leaf(5), "question 1 is not the one at node 1"),
        (rows(1, 2, 3), answers(0, 0, 0), leaf(6), "led to another result"),
        (rows(1, 2), answers(0, 0), leaf(5), "the tree goes on"),
        (rows(1, 2, 3, 4), answers(0, 0, 0, 0), leaf(5), "led to another result"),
    ],
)
def test_contradictions_are_hard_errors(observations, given_answers, result, message):
    tree = ResponseTree(1)
    add(tree, rows(1, 2, 3), answers(0, 0, 0), leaf(5))
    with pytest.raises(ReplayMismatch, match=message):
        tree.branch_of(observations, given_answers, result)


def test_long_runs_cross_blocks():
    tree = ResponseTree(8)
    observations = np.arange(1000, dtype=np.int64)[:, None].view(np.uint8)
    add(tree, observations, np.zeros(1000, np.int64), leaf(1))
    for turn in (0, 255, 256, 257, 999):
        walk = tree.walk(lambda seen, turn=turn: (seen.copy().view(np.int64)[:, 0] == turn).astype(np.int64))
        assert walk.leaf is None
        assert walk.nodes.tolist() == list(range(turn + 1))
        assert walk.answers.tolist() == [0] * turn + [1]
