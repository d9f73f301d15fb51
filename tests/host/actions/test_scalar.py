"""Priorities, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.types import TensorSpec
from mlgo.errors import PolicyError
from mlgo.host.actions import Observation
from mlgo.host.log import Header
from mlgo.host.tasks.regalloc import PRIORITIES, REGALLOC_PRIORITY
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import ExploringAdvisor, Policy
from tests.host.actions import cases

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int64)
FEATURES = ("li_size", "stage", "weight")
HEADER = cases.CASES["scalar"].header
UNSPILLABLE = 1e6


payload = cases.a_range


def scaling(features):
    unit = np.array([REGALLOC_PRIORITY.units.get(name, 1.0) for name in features], np.float32)
    return Normalisation(features, np.zeros(len(features), np.float32), np.full(len(features), 10, np.float32), unit)


def policy(weights, features=FEATURES):
    architecture = Architecture((PRIORITIES.num_inputs(len(features)), 1))
    return Policy("regalloc-priority", scaling(features), architecture, np.array(weights, np.float32))


def random_policy(seed):
    return policy(np.random.default_rng(seed).normal(size=23))


def answers(advisor, payloads):
    return cases.answers(advisor, HEADER, payloads)


def priority_of(outputs):
    return PRIORITIES.greedy(np, np.asarray(outputs, np.float32))


def output_of(priorities):
    return PRIORITIES.targets(np.asarray(priorities, np.float32))


def test_priorities_by_hand():
    outputs = np.array([-3.0, -1.0, 0.0, 1.0, 3.0], np.float32)
    half = 2**23
    assert priority_of(outputs).tolist() == [half / 4, half / 2, half, 1.5 * half, 1.75 * half]
    assert output_of(priority_of(outputs)).tolist() == outputs.tolist()


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=50))
def test_priorities_keep_the_order_and_the_range(outputs):
    found = priority_of(np.sort(np.array(outputs, np.float32)))
    assert (np.diff(found) >= 0).all()
    assert found.min() >= 0.0
    assert found.max() <= 2**24


@pytest.mark.parametrize(("output", "apart"), [(-3.0, 2e-6), (0.0, 2e-6), (2.9, 2e-6), (20.0, 6e-5)])
def test_priorities_that_the_compiler_tells_apart(output, apart):
    pair = priority_of([output, output + apart])
    assert int(pair[0]) < int(pair[1])


def test_inputs_by_hand():
    raw = np.array([[100, 2, 0.5], [3, 9, UNSPILLABLE * 2**16]], np.float32)
    features = scaling(FEATURES)(raw)
    inputs = PRIORITIES.encode(np, Observation(raw), scaling(FEATURES))
    of_stages = inputs[:, :-1].reshape(2, 7, 3)
    assert of_stages[0, 2].tolist() == [features[0, 0], 1.0, features[0, 2]]
    assert of_stages[1, 6].tolist() == [features[1, 0], 1.0, features[1, 2]]  # the last stage stands for later ones
    assert np.count_nonzero(of_stages) == 6
    assert inputs[:, -1].tolist() == [0.0, 1.0]


def test_a_linear_policy_by_hand():
    """In stage 1 its output is the normalised size, in stage 2 that minus 3; 1 more for the unspillable."""
    weights = np.zeros(23)
    weights[[3, 6]] = 1.0  # size in stages 1 and 2
    weights[7], weights[21] = -3.0, 1.0
    sizes = [15, 255, 15, 255, 15]
    questions = [payload(*one) for one in zip(sizes, [1, 1, 2, 2, 1], [0, 9, 0, 9, UNSPILLABLE], strict=True)]
    outputs = np.array([np.log(16), np.log(256), np.log(16) - 30, np.log(256) - 30, np.log(16) + 10]) / 10
    assert answers(policy(weights), questions) == pytest.approx(priority_of(outputs).tolist(), 1e-6)


def test_weights_are_taken_in_small_units():
    """A weight of 2^-16 is 1 in the policy's unit, so its input is log(2) / 10."""
    weights = np.zeros(23)
    weights[5] = 1.0  # weight in stage 1
    expected = priority_of(np.log([2, 3]) / 10).tolist()
    assert answers(policy(weights), [payload(8, 1, 2.0**-16), payload(8, 1, 2.0**-15)]) == pytest.approx(expected, 1e-6)


def test_without_the_feature_of_the_threshold():
    small = policy(np.arange(16), features=("stage", "li_size"))
    # stage 1: inputs 2 and 3 are 1 and the size
    expected = priority_of([2 + 3 * np.log(16) / 10 + 15])
    assert answers(small, [payload(15)]) == pytest.approx(expected.tolist(), 1e-6)
    raw = Observation(np.array([[1, 15]], np.float32))
    assert small.logits(raw) == pytest.approx([2 + 3 * np.log(16) / 10 + 15], 1e-6)


def test_what_the_compiler_does_not_offer():
    lacking = Header(HEADER.features[1:], HEADER.advice)
    with pytest.raises(PolicyError, match=r"lacks 1 of the policy's features \(weight\)"):
        random_policy(0).respond_to(lacking)
    wide = Header((TensorSpec("weight", FLOAT, (1, 33)), *HEADER.features[1:]), HEADER.advice)
    for bind in (random_policy(0).respond_to, random_policy(0).inputs_for):
        with pytest.raises(PolicyError, match="not one number: weight"):
            bind(wide)
    whole = Header(HEADER.features, TensorSpec("priority", INT, (1,)))
    with pytest.raises(PolicyError, match="expects int64 as its answer"):
        random_policy(0).respond_to(whole)


def test_outputs_behind_the_ends_are_finite():
    ends = output_of([0.0, 2.0**24])
    assert np.isfinite(ends).all()
    assert ends[0] < -1e6 < 1e6 < ends[1]


def test_noise_is_added_to_outputs():
    one, questions = random_policy(3), [payload(16 * size, weight=0.01 * size) for size in range(1, 2001)]
    own = output_of(answers(one, questions))
    found = output_of(answers(ExploringAdvisor(one, 0.25, 0.0, 7), questions)) - own
    assert found.mean() == pytest.approx(0.0, abs=0.02)  # standard error 0.006
    assert found.std() == pytest.approx(0.25, abs=0.015)  # standard error 0.004
    assert answers(ExploringAdvisor(one, 0.0, 0.0, 7), questions) == answers(one, questions)
    turned = output_of(answers(ExploringAdvisor(one, 0.0, 0.3, 7), questions)) != own
    assert turned.mean() == pytest.approx(0.3, abs=0.04)  # standard error 0.01


def test_densities_by_hand(keras):
    logits = PRIORITIES.logits(lambda inputs: 2.0 * inputs, np.array([[0.0], [0.5]], np.float32))
    assert logits.tolist() == [0.0, 1.0]
    found = np.asarray(PRIORITIES.log_prob(keras.ops, logits, np.array([0.0, 3.0], np.float32)))
    peak = -math.log(math.sqrt(2.0 * math.pi))
    assert found.tolist() == pytest.approx([peak, peak - 2.0])
    expected = [0.5 + math.log(math.sqrt(2.0 * math.pi))] * 2
    assert np.asarray(PRIORITIES.entropy(keras.ops, logits)).tolist() == pytest.approx(expected)
    agreed = PRIORITIES.agrees(keras.ops, logits, np.array([0.05, 3.0], np.float32))
    assert np.asarray(agreed).tolist() == [True, False]
