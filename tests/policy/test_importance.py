"""Permutation importance on policies whose answers are known."""

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import trace_schema
from mlgo.errors import PolicyError
from mlgo.policy.features import Normalisation
from mlgo.policy.importance import permutation_importance, sample_questions
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy

NAMES = ("sign", "ignored", "constant", "weak")


@pytest.fixture
def policy():
    """Inlines where ``sign`` is positive: log(2) = 0.69 outweighs all that 0.5 log(2) of ``weak`` can do."""
    scaling = Normalisation(NAMES, np.zeros(4, np.float32), np.ones(4, np.float32))
    return Policy("inline-size", scaling, Architecture((4, 1)), np.array([1, 0, 9, 0.5, 0], np.float32))


def observations(count):
    rows = np.zeros((count, 4), np.int64)
    rows[:, 0] = np.where(np.arange(count) % 4 == 0, 1, -1)
    rows[:, 1] = np.arange(count)
    rows[:, 3] = np.arange(count) % 2
    return rows


def test_shares_of_changed_answers(policy):
    rows = observations(20_000)
    before = rows.copy()
    ranked = permutation_importance(policy, rows, 0)
    assert np.array_equal(rows, before)
    assert [one.feature for one in ranked] == ["sign", "ignored", "constant", "weak"]  # the order of equals is kept
    # A quarter is positive. An answer changes if a value is exchanged for the other one: 2 * 1/4 * 3/4.
    assert ranked[0].changed_share == pytest.approx(0.375, abs=0.015)
    assert [one.changed_share for one in ranked[1:]] == [0.0, 0.0, 0.0]


def test_only_the_seed_and_the_questions_count(policy):
    rows = observations(500)
    first, again, other = (permutation_importance(policy, rows, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert permutation_importance(policy, rows[:0], 0) == []


def test_questions_are_sampled_from_the_projects():
    rows = [
        {"project": project, "module": "m.c", "context": "", "step": i, "x": number, "y": i, "answer": 0}
        for number, project in enumerate("pqr")
        for i in range(50)
    ]
    trace = pa.Table.from_pylist(rows, trace_schema(["x", "y"]))
    every = sample_questions(trace, {"p", "r"}, ("y", "x"), 0)
    assert every.tolist() == [[i, number] for number in (0, 2) for i in range(50)]
    some = sample_questions(trace, {"p", "r"}, ("y", "x"), 0, count=30)
    assert len(some) == 30
    assert set(some[:, 1].tolist()) == {0, 2}
    assert np.array_equal(some, sample_questions(trace, {"r", "p"}, ("y", "x"), 0, count=30))
    assert sample_questions(trace, set(), ("x",), 0).shape == (0, 1)
    with pytest.raises(PolicyError, match="the trace lacks 1 of the policy's features"):
        sample_questions(trace, {"p"}, ("z",), 0)
