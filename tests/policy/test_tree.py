"""Decision trees as policies: the ways of questions, flat vectors, files, and what works with networks alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ArtifactError, PolicyError
from mlgo.evaluate.training import load_start
from mlgo.host.actions import Observation
from mlgo.policy.features import Unscaled
from mlgo.policy.importance import permutation_importance
from mlgo.policy.policy import ExploringAdvisor, Policy
from mlgo.policy.stored import load_policy, save_policy
from mlgo.policy.tree import LARGEST, Branching, Tree
from tests.host.actions.cases import CASES, answers
from tests.policy.conftest import edited, saved_twice

LEAF = 0
BY_HAND = Tree(
    feature=np.array([1, 0, LEAF, LEAF, LEAF]),
    threshold=np.array([3, -2, 0, 0, 0], np.float32),
    left=np.array([1, 2, 2, 3, 4]),
    right=np.array([4, 3, 2, 3, 4]),
    value=np.array([0, 0, 1.5, -0.5, -2], np.float32),
)
"""b <= 3: (a <= -2: 1.5, else -0.5), else -2."""
QUESTIONS = np.array([[-2, 3], [-3, -100], [-1, 3], [50, 0], [-2, 4], [2**62, 2**62]])
FOUND = [1.5, 1.5, -0.5, -0.5, -2.0, -2.0]


@pytest.fixture
def policy():
    return Policy("inline-size", Unscaled(("a", "b")), Branching(2, 5), BY_HAND.flat(), {"teacher": "marginal-s7"})


def test_ways_by_hand(policy):
    assert policy.logits(Observation(QUESTIONS)).tolist() == FOUND
    assert [float(policy.logits(Observation(row))) for row in QUESTIONS] == FOUND
    assert BY_HAND.apply(QUESTIONS).tolist() == [2, 2, 3, 3, 4, 4]
    assert BY_HAND.leaves.tolist() == [2, 3, 4]
    assert BY_HAND.logits(QUESTIONS[None]).tolist() == [FOUND]
    leaf = Branching(1, 1).model(np.array([0, 0, 0, 0, 0.25], np.float32))
    assert leaf.logits(np.array([[7], [-7]])).tolist() == [0.25, 0.25]
    assert leaf.logits(np.array([7])) == 0.25


def test_it_is_an_advisor(policy):
    case = CASES["binary"]
    payloads = case.questions(0, 200)
    found = answers(policy, case.header, payloads)
    rows = np.frombuffer(b"".join(payloads), np.int64).reshape(-1, 3)  # other, b, a
    assert found == [float(b <= 3 and a <= -2) for _, b, a in rows.tolist()]
    assert 0 < sum(found) < 200
    assert answers(ExploringAdvisor(policy, 0.0, 0.0, 1), case.header, payloads) == found


def test_saved_trees_come_back_and_save_to_the_same_bytes(policy, tmp_path):
    again = saved_twice(policy, tmp_path)
    assert again.normalisation == policy.normalisation
    assert again.logits(Observation(QUESTIONS)).tolist() == FOUND


@given(
    value=st.integers(-(2**63), 2**63 - 1) | st.integers(-LARGEST - 9, LARGEST + 9),
    threshold=st.integers(1 - LARGEST, LARGEST - 1),
    near=st.integers(-2, 2),
)
def test_whole_numbers_and_their_nearest_float32_go_the_same_way(value, threshold, near):
    for number in (value, threshold + near):
        assert (number <= threshold) == bool(np.float32(number) <= np.float32(threshold))


def spoilt(**arrays):
    return replace(BY_HAND, **{name: np.array(values, np.float32) for name, values in arrays.items()}).flat()


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (BY_HAND.flat()[:-1], "24 numbers where a tree of 5 nodes has 25"),
        (spoilt(left=[0, 2, 2, 3, 4]), "do not make a tree"),  # the root is a leaf
        (spoilt(left=[1, 0, 2, 3, 4]), "do not make a tree"),  # round in a circle
        (spoilt(right=[4, 2, 2, 3, 4]), "do not make a tree"),  # two ways to one node
        (spoilt(right=[5, 3, 2, 3, 4]), "do not make a tree"),
        (spoilt(feature=[2, 0, 0, 0, 0]), "do not make a tree over 2 features"),
        (spoilt(feature=[-1, 0, 0, 0, 0]), "do not make a tree over 2 features"),
        (spoilt(threshold=[0.5, 0, 0, 0, 0]), "whole numbers"),
        (spoilt(threshold=[LARGEST, 0, 0, 0, 0]), "whole numbers"),
        (spoilt(threshold=[np.nan, 0, 0, 0, 0]), "1 weights are not finite"),
        (spoilt(value=[0, 0, np.inf, 0, 0]), "1 weights are not finite"),
    ],
)
def test_vectors_that_are_no_tree(vector, message, policy, tmp_path):
    save_policy(replace(policy, weights=vector), tmp_path)
    with pytest.raises(PolicyError, match=message):
        load_policy(tmp_path)


@given(st.lists(st.integers(-1, 3), min_size=12, max_size=12))
def test_any_nodes_are_refused_or_end_at_a_leaf(numbers):
    vector = np.array([*numbers, 1, 2, 3], np.float32)
    try:
        tree = Branching(2, 3).model(vector)
    except PolicyError:
        return
    assert np.isin(tree.apply(QUESTIONS), tree.leaves).all()


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("nodes", 4, PolicyError, "25 numbers where a tree of 4 nodes has 20"),
        ("nodes", 0, PolicyError, "where a tree of 0 nodes"),
        ("nodes", "5", ArtifactError, "unusable number of nodes"),
        ("features", ["a"], PolicyError, "do not make a tree over 1 features"),
        ("features", "ab", ArtifactError, "features is not a list"),
        ("format", 2, ArtifactError, "readable policy"),
    ],
)
def test_contradictions_in_the_description(key, value, error, message, policy, tmp_path):
    edited(policy, tmp_path, **{key: value})
    with pytest.raises(error, match=message):
        load_policy(tmp_path)


def test_what_needs_a_network_names_the_policy_to_take(policy, tmp_path):
    with pytest.raises(PolicyError, match=r"needs a network.*take the one it was distilled from, marginal-s7"):
        _ = policy.layers
    with pytest.raises(PolicyError, match=r"the one it was distilled from$"):
        replace(policy, origin={}).network()
    save_policy(policy, tmp_path / "tree-s0")
    with pytest.raises(PolicyError, match="this needs a network, and the policy is a decision tree"):
        load_start(tmp_path / "tree-s0", tmp_path)


def test_importance_by_hand(policy):
    values = np.array([[-5, 0], [5, 0]] * 500)  # b is always 0, so only a matters
    first, second = permutation_importance(policy, values, 0)
    assert (first.feature, second.feature, second.changed_share) == ("a", "b", 0.0)
    assert first.changed_share == pytest.approx(0.5, abs=0.08)
