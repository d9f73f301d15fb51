"""Policies and advisors that give priorities; expected answers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.core.errors import ConfigError, PolicyError
from mlgo.core.types import TensorSpec
from mlgo.policy.advisors import ConstantAdvisor
from mlgo.policy.explorers import exploring
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture, logits
from mlgo.policy.priority_advisors import LongestAdvisor, RandomPriorityAdvisor
from mlgo.policy.priority_policy import PriorityPolicy, output_of, priority_of, range_inputs
from mlgo.policy.stored import as_network_policy, check_answers_yes_or_no, load_policy, save_policy
from mlgo.tasks import PureAdvisor
from mlgo.tasks.regalloc_priority import UNITS
from mlgo.wire.log import Header

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float32)
FEATURES = ("li_size", "stage", "weight")
HEADER = Header(
    (  # in another order than the policy's, and one more
        TensorSpec("weight", FLOAT, (1,)),
        TensorSpec("other", INT, (1,)),
        TensorSpec("stage", INT, (1,)),
        TensorSpec("li_size", INT, (1,)),
    ),
    TensorSpec("priority", FLOAT, (1,)),
)
UNSPILLABLE = 1e6


def payload(size, stage=1, weight=0.5):
    return np.float32(weight).tobytes() + np.array([-7, stage, size], np.int64).tobytes()


def policy(weights, hidden=(), features=FEATURES):
    unit = np.array([UNITS.get(name, 1.0) for name in features], np.float32)
    scaling = Normalisation(features, np.zeros(len(features), np.float32), np.full(len(features), 10, np.float32), unit)
    architecture = Architecture((PriorityPolicy.num_inputs(len(features)), *hidden, 1))
    return PriorityPolicy("regalloc-priority", scaling, architecture, np.array(weights, np.float32))


def random_policy(seed, hidden=()):
    weights = np.random.default_rng(seed).normal(size=policy([0], hidden).architecture.num_params)
    return policy(weights, hidden)


def answers(advisor, payloads):
    respond = advisor.respond_to(HEADER)
    singly = [float(np.frombuffer(respond(one), np.float32)[0]) for one in payloads]
    if isinstance(advisor, PureAdvisor):
        stacked = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), -1)
        assert advisor.decide_for(HEADER)(stacked).tolist() == singly
    return singly


def test_priorities_by_hand():
    outputs = np.array([-np.inf, -3.0, -1.0, 0.0, 1.0, 3.0], np.float32)[1:]
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
    pair = priority_of(np.array([output, output + apart], np.float32))
    assert int(pair[0]) < int(pair[1])


def test_inputs_by_hand():
    raw = np.array([[100, 2, 0.5], [3, 9, UNSPILLABLE * 2**16]], np.float32)
    inputs = range_inputs(np.array([[0.1, 9, 0.2], [0.3, 9, 0.4]], np.float32), raw, FEATURES)
    of_stages = inputs[:, :-1].reshape(2, 7, 3)
    assert of_stages[0, 2].tolist() == pytest.approx([0.1, 1.0, 0.2])
    assert of_stages[1, 6].tolist() == pytest.approx([0.3, 1.0, 0.4])  # the last stage stands for later ones, too
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
    assert answers(policy(weights), questions) == pytest.approx(priority_of(outputs.astype(np.float32)).tolist(), 1e-6)


def test_weights_are_taken_in_small_units():
    """A weight of 2^-16 is 1 in the policy's unit, so its input is log(2) / 10."""
    weights = np.zeros(23)
    weights[5] = 1.0  # weight in stage 1
    expected = priority_of(np.array([np.log(2), np.log(3)], np.float32) / np.float32(10)).tolist()
    assert answers(policy(weights), [payload(8, 1, 2.0**-16), payload(8, 1, 2.0**-15)]) == pytest.approx(expected, 1e-6)


@pytest.mark.parametrize("hidden", [(), (8,), (8, 4)])
@given(seed=st.integers(0, 2**32 - 1))
def test_one_by_one_is_what_many_at_once_give(hidden, seed):
    rng, learnt = np.random.default_rng(seed), random_policy(seed, hidden)
    sizes, stages = rng.integers(0, 10**6, 30), rng.integers(0, 9, 30)
    weights = np.where(rng.random(30) < 0.2, UNSPILLABLE, rng.lognormal(-4, 4, 30)).astype(np.float32)
    output = learnt.output_for(HEADER)
    singly = [output(payload(*one)) for one in zip(sizes, stages, weights, strict=True)]
    values = np.stack([sizes, stages, weights], axis=1).astype(np.float32)
    np.testing.assert_allclose(learnt.outputs(values), singly, rtol=1e-4, atol=1e-4)
    questions = [payload(*one) for one in zip(sizes, stages, weights, strict=True)]
    rows = np.frombuffer(b"".join(questions), np.uint8).reshape(30, -1)
    inputs = learnt.inputs_for(HEADER)(rows)
    assert (logits(learnt.architecture.unflatten(learnt.weights), inputs) == learnt.outputs(values)).all()
    assert len(set(answers(learnt, questions))) > 1


def test_without_weights():
    small = policy(np.arange(16), features=("stage", "li_size"))
    # stage 1: inputs 2 and 3 are 1 and the size
    expected = priority_of(np.array([2 + 3 * np.log(16) / 10 + 15], np.float32))
    assert answers(small, [payload(15)]) == pytest.approx(expected.tolist(), 1e-6)


def test_longest_first_and_split_last():
    questions = [payload(4), payload(70_000), payload(70_004), payload(10**6, 2), payload(8, 2), payload(8, 5)]
    found = answers(LongestAdvisor(), questions)
    assert sorted(range(6), key=found.__getitem__) == [4, 3, 0, 5, 1, 2]
    assert len({int(one) for one in found}) == 6
    assert output_of(np.array(found[:1])) == pytest.approx(np.log(5) / 7 - 1, abs=1e-5)


def test_other_advisors():
    assert answers(ConstantAdvisor(0), [payload(4), payload(400)]) == [0.0, 0.0]
    first, again, other = (answers(RandomPriorityAdvisor(7, name), [payload(4)] * 100) for name in ("a", "a", "b"))
    assert first == again != other
    assert len(set(first)) == 100
    assert 0 <= min(first) < 2**20
    assert 2**24 - 2**20 < max(first) <= 2**24


def test_what_the_compiler_does_not_offer():
    lacking = Header(HEADER.features[1:], HEADER.advice)
    with pytest.raises(PolicyError, match=r"lacks 1 of the policy's features \(weight\)"):
        random_policy(0).respond_to(lacking)
    wide = Header((TensorSpec("weight", FLOAT, (1, 33)), *HEADER.features[1:]), HEADER.advice)
    with pytest.raises(PolicyError, match="not one number: weight"):
        random_policy(0).respond_to(wide)
    whole = Header(HEADER.features, TensorSpec("priority", INT, (1,)))
    with pytest.raises(PolicyError, match="expects int64 as its answer"):
        random_policy(0).respond_to(whole)


def test_on_disk(tmp_path):
    saved = replace(random_policy(3), origin={"seed": 1})
    save_policy(saved, tmp_path / "p")
    found = load_policy(tmp_path / "p")
    assert isinstance(found, PriorityPolicy)
    assert found.weights.tolist() == saved.weights.tolist()
    assert (found.normalisation.features, found.origin) == (FEATURES, {"seed": 1})
    with pytest.raises(PolicyError, match="not for a policy of regalloc-priority"):
        as_network_policy(found)
    with pytest.raises(ConfigError, match="task regalloc-priority has others"):
        check_answers_yes_or_no("regalloc-priority", "marginal")


def test_what_learners_see_of_a_priority():
    outputs = np.array([-2.5, -0.5, 0.0, 0.25, 7.0], np.float32)
    assert PriorityPolicy.learnt(priority_of(outputs)).tolist() == pytest.approx(outputs.tolist(), abs=1e-4)
    ends = PriorityPolicy.learnt(np.array([0.0, 2.0**24], np.float32))
    assert np.isfinite(ends).all()
    assert ends[0] < -1e6 < 1e6 < ends[1]


def test_noise_is_added_to_outputs():
    one, questions = random_policy(3), [payload(16 * size, weight=0.01 * size) for size in range(1, 2001)]
    own = output_of(np.array(answers(one, questions), np.float32))
    found = output_of(np.array(answers(exploring(one, 0.25, 0.0, 7), questions), np.float32)) - own
    assert found.mean() == pytest.approx(0.0, abs=0.02)  # standard error 0.006
    assert found.std() == pytest.approx(0.25, abs=0.015)  # standard error 0.004
    assert answers(exploring(one, 0.0, 0.0, 7), questions) == answers(one, questions)
    turned = output_of(np.array(answers(exploring(one, 0.0, 0.3, 7), questions), np.float32)) != own
    assert turned.mean() == pytest.approx(0.3, abs=0.04)  # standard error 0.01


def test_the_same_luck_gives_the_same_priorities():
    one, questions = random_policy(3), [payload(size) for size in range(20)]
    first, again, other = (answers(exploring(one, 1.0, 0.1, seed), questions * 2) for seed in (7, 7, 8))
    assert first == again != other
