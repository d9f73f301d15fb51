"""Trees fitted to a policy's answers, on questions whose tree is known."""

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import trace_schema
from mlgo.errors import PolicyError, TrainingError
from mlgo.host.actions import Observation
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.research.commands.distill import Leaf, Taught, agreement, distil, taught_questions

TASK = "inline-size"


def taught(rows):
    """Questions with the features a and b, and the teacher's logits; the trace always says yes."""
    table = np.array(rows, np.float64)
    return Taught(
        ("a", "b"), table[:, :2].astype(np.int64), table[:, 2].astype(np.float32), np.ones(len(table), np.bool_)
    )


def test_one_threshold():
    # Yes up to 5, no from 8: the threshold is the whole number below the middle, and b is not asked about.
    found = distil(taught([(3, 0, 2), (5, 9, 1), (8, 0, -1), (11, 9, -3)]), TASK, 8, {"seed": 1})
    assert found.normalisation.features == ("a",)
    assert found.architecture.num_nodes == 3
    assert found.model.threshold.tolist() == [6.0, 0.0, 0.0]
    assert (found.logits(Observation(np.array([[6], [7]]))) > 0).tolist() == [True, False]
    assert found.origin == {"seed": 1}


def test_margins_decide_and_leaves_with_one_answer_are_one():
    # At a = 1 two small noes and one large yes: yes. At a = 0 and 1 the answer is the same, so one leaf holds both.
    rows = [(0, 0, 1)] * 3 + [(1, 0, -1), (1, 0, -1), (1, 0, 4)] + [(2, 0, -1)] * 2
    found = distil(taught(rows), TASK, 8, {})
    assert found.model.threshold.tolist() == [1.0, 0.0, 0.0]
    assert found.model.value[1] == pytest.approx(np.log(7 / 2), abs=0.005)
    assert found.model.value[2] == np.float32(-9.99)  # nothing speaks against it


def test_agreement_by_hand():
    tree = distil(taught([(0, 0, 1), (10, 0, -1)]), TASK, 2, {})
    found = agreement(tree, taught([(0, 0, 1), (1, 0, 3), (2, 0, -4), (9, 0, -2)]))
    assert (found.questions, found.equal, found.equal_by_margin, found.recorded_equal) == (4, 0.75, 0.6, 0.5)
    assert found.leaves == [Leaf(1, 3, pytest.approx(2 / 3)), Leaf(0, 1, 1.0)]
    assert asdict(found)["leaves"][1] == {"answer": 0, "questions": 1, "equal": 1.0}
    assert agreement(tree, taught([(0, 0, 1)])).leaves[1] == Leaf(0, 0, 1.0)


def test_leaves_are_bounded_and_the_same_questions_give_the_same_tree():
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**40), 2**40, (5000, 2))
    logits = np.where((values[:, 0] > 0) ^ (values[:, 1] > 7), 1, -1) * rng.random(5000).astype(np.float32)
    questions = Taught(("a", "b"), values, logits, logits > 0)
    trees = [distil(questions, TASK, 8, {}) for _ in range(2)]
    assert 2 <= len(trees[0].model.leaves) <= 8
    assert trees[0].weights.tobytes() == trees[1].weights.tobytes()
    assert trees[0].architecture.model(trees[0].weights).logits(values).shape == (5000,)
    assert agreement(trees[0], questions).equal > 0.99  # the exclusive or of two thresholds has four leaves


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 0, 1), (1, 0, 2)], "all 2 questions alike; there is nothing"),
        ([(0, 0, 3), (0, 0, -1)], "a tree of 4 leaves answers all questions alike"),
    ],
)
def test_nothing_to_distil(rows, message):
    with pytest.raises(TrainingError, match=message):
        distil(taught(rows), TASK, 4, {})


def test_questions_of_a_trace():
    scaling = Normalisation(("b", "a"), np.zeros(2, np.float32), np.ones(2, np.float32))
    teacher = Policy(TASK, scaling, Architecture((2, 1)), np.array([-1, 1, 0], np.float32))  # yes where a > b
    key = {"module": "m.c", "context": "", "step": 0}
    rows = [("p", 3, 1, 0), ("q", 1, 3, 1), ("r", 9, 8, 1)]
    records = [{**key, "project": project, "a": a, "b": b, "answer": answer} for project, a, b, answer in rows]
    trace = pa.Table.from_pylist(records, schema=trace_schema(["a", "b"]))
    found = taught_questions(teacher, trace, {"p", "q"})
    assert found.values.tolist() == [[1, 3], [3, 1]]
    assert found.logits.tolist() == pytest.approx([np.log(2), -np.log(2)])
    assert found.recorded.tolist() == [False, True]
    with pytest.raises(TrainingError, match="no question of 1 projects"):
        taught_questions(teacher, trace, {"s"})
    with pytest.raises(PolicyError, match=r"lacks 1 of the policy's features \(b\)"):
        taught_questions(teacher, trace.drop_columns(["b"]), {"p"})
