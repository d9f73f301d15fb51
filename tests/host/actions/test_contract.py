"""What must be true of every action space."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mlgo.host.actions import Binary, Categorical, Observation, Scalar, Subset
from mlgo.host.tasks.task import all_tasks
from mlgo.policy.network import logits
from mlgo.policy.policy import ExploringAdvisor
from tests.host.actions.cases import CASES, answers

SEEDS = st.integers(0, 2**32 - 1)
SPACES = {"binary": Binary(), "categorical": Categorical("mask"), "subset": Subset()}
SPACES["scalar"] = next(task.actions for task in all_tasks() if isinstance(task.actions, Scalar))


def some_logits(name, rng, count=50):
    """Logits, and some actions for them."""
    if name in ("categorical", "subset"):
        legal = rng.random((count, 5)) < 0.6
        legal[:, 2] = True
        found = np.where(legal, rng.normal(0, 2, (count, 5)), -1e9).astype(np.float32)
        return found, np.array([rng.choice(np.flatnonzero(one)) for one in legal])
    found = rng.normal(0, 2, count).astype(np.float32)
    return found, rng.integers(0, 2, count) if name == "binary" else rng.normal(0, 2, count).astype(np.float32)


def test_every_task_has_a_case():
    assert {CASES[name].task for name in CASES} <= {task.name for task in all_tasks()}
    assert {type(task.actions) for task in all_tasks()} <= {type(space) for space in SPACES.values()}


def probabilities(name, ops, found):
    """Of all actions, float64 [num, num_actions]."""
    space = SPACES[name]
    count = 2 if name == "binary" else found.shape[1]
    columns = [np.asarray(space.log_prob(ops, found, np.full(len(found), one, np.float32))) for one in range(count)]
    return np.exp(np.stack(columns, axis=1).astype(np.float64))


@pytest.mark.parametrize("name", ["binary", "categorical", "subset"])
def test_probabilities_add_up_and_entropy_is_theirs(name, keras):
    found, _ = some_logits(name, np.random.default_rng(0))
    shares = probabilities(name, keras.ops, found)
    assert shares.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    expected = [stats.entropy(one) for one in shares]
    assert np.asarray(SPACES[name].entropy(keras.ops, found)) == pytest.approx(expected, abs=1e-5)


def test_the_density_is_a_normal_one(keras):
    found, targets = some_logits("scalar", np.random.default_rng(0))
    density = np.asarray(SPACES["scalar"].log_prob(keras.ops, found, targets))
    assert density == pytest.approx(stats.norm.logpdf(targets, found), abs=1e-4)
    assert np.asarray(SPACES["scalar"].entropy(keras.ops, found)) == pytest.approx(stats.norm.entropy(), abs=1e-6)


@pytest.mark.parametrize("name", ["binary", "categorical", "subset"])
def test_the_best_action_is_the_most_probable(name, keras):
    found, _ = some_logits(name, np.random.default_rng(1))
    best = SPACES[name].greedy(np, found).astype(np.int64)
    assert best.tolist() == probabilities(name, keras.ops, found).argmax(axis=1).tolist()
    assert np.asarray(SPACES[name].agrees(keras.ops, found, best.astype(np.float32))).all()


@pytest.mark.parametrize("name", SPACES)
def test_the_loss_of_cloning_is_the_log_probability(name, keras):
    """But for a constant and a factor: that of the squared error is 2."""
    space = SPACES[name]
    found, targets = some_logits(name, np.random.default_rng(2))
    outputs = found if found.ndim == 2 else found[:, None]
    losses = np.array(
        [float(space.loss(keras)(targets[i : i + 1, None], outputs[i : i + 1])) for i in range(len(found))]
    )
    log_prob = np.asarray(space.log_prob(keras.ops, found, targets.astype(np.float32)))
    factor, constant = (2.0, math.log(2.0 * math.pi)) if name == "scalar" else (1.0, 0.0)
    assert losses + constant == pytest.approx(-factor * log_prob, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", SPACES)
@given(seed=SEEDS)
def test_another_action_is_at_least_a_margin_away(name, seed):
    rng = np.random.default_rng(seed)
    found, _ = some_logits(name, rng)
    margin = SPACES[name].margin(found)
    assert (margin >= 0).all()
    noise = rng.uniform(-0.49, 0.49, found.shape) * (margin if found.ndim == 1 else margin[:, None])
    moved = (found + np.where(np.isfinite(noise), noise, 0.0)).astype(np.float32)
    if name != "scalar":  # there every bit counts, so the margin is 0
        assert (SPACES[name].greedy(np, moved) == SPACES[name].greedy(np, found)).all()


@pytest.mark.parametrize("name", SPACES)
def test_equal_questions_get_equal_samples(name):
    found, _ = some_logits(name, np.random.default_rng(3), 200)
    found = np.where(found < -1e8, -np.inf, found)
    payloads = [str(i % 100).encode() for i in range(200)]
    found[100:] = found[:100]

    def samples(seed):
        sample = SPACES[name].sampler(1.0, 0.1, seed)
        return [float(sample(*pair)) for pair in zip(payloads, found, strict=True)]

    first = samples(7)
    assert first == samples(7) != samples(8)
    assert first[:100] == first[100:]


@pytest.mark.parametrize("name", SPACES)
def test_without_temperature_and_flips_a_sample_is_the_best_action(name):
    found, _ = some_logits(name, np.random.default_rng(4))
    sample = SPACES[name].sampler(0.0, 0.0, 1)
    assert [float(sample(b"", one)) for one in found] == SPACES[name].greedy(np, found).astype(float).tolist()


@pytest.mark.parametrize("name", ["binary", "categorical", "subset"])
def test_samples_are_as_frequent_as_they_are_probable(name, keras):
    found, _ = some_logits(name, np.random.default_rng(5), 3)
    sample = SPACES[name].sampler(1.0, 0.0, 9)
    for one, shares in zip(found, probabilities(name, keras.ops, found), strict=True):
        masked = np.where(one < -1e8, -np.inf, one)
        drawn = [int(sample(str(i).encode(), masked)) for i in range(4000)]
        frequencies = np.bincount(drawn, minlength=len(shares)) / 4000
        assert frequencies == pytest.approx(shares, abs=0.03)  # 3.8 standard errors of a half


@pytest.mark.parametrize("name", CASES)
def test_the_encoding_is_the_same_in_tensors(name, keras):
    case = CASES[name]
    policy = case.policy(0)
    rows = np.frombuffer(b"".join(case.questions(1)), np.uint8).reshape(20, -1)
    read = policy.actions.reader(case.header, case.features)(rows)
    tensors, start = {}, 0
    for spec in case.header.features:
        numbers = np.ascontiguousarray(rows[:, start : start + spec.num_bytes]).view(spec.dtype)
        tensors[spec.name] = numbers if spec.num_elements > 1 else numbers[:, 0]
        start += spec.num_bytes
    assert np.array_equal(policy.actions.pack(np, tensors, case.features).values, read.values)
    packed = policy.actions.pack(
        keras.ops, {key: keras.ops.convert_to_tensor(one) for key, one in tensors.items()}, case.features
    )
    inputs = policy.actions.encode(np, read, policy.normalisation)
    np.testing.assert_allclose(policy.actions.encode(keras.ops, packed, policy.normalisation), inputs, atol=1e-6)
    assert inputs.dtype == np.float32
    assert inputs.shape[-1] == policy.actions.num_inputs(len(case.features))
    seen = policy.inputs_for(case.header)(rows)
    assert np.array_equal(seen[..., : inputs.shape[-1]], inputs)
    if packed.legal is not None:
        assert np.array_equal(np.asarray(packed.legal), read.legal)
        assert np.array_equal(seen[..., -1] == 1.0, read.legal)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("hidden", "groups"), [((), 1), ((8,), 1), ((8, 4), 1), ((8, 4, 4), 2)])
@given(seed=SEEDS)
def test_many_at_once_are_answered_as_one_by_one(name, hidden, groups, seed):
    case = CASES[name]
    policy, questions = case.policy(seed, hidden, groups), case.questions(seed)
    found = answers(policy, case.header, questions)
    explored = answers(ExploringAdvisor(policy, 1.0, 0.2, seed), case.header, questions)
    rows = np.frombuffer(b"".join(questions), np.uint8).reshape(len(questions), -1)
    observation = policy.actions.reader(case.header, case.features)(rows)
    if observation.legal is not None:
        for chosen in (found, explored):
            assert observation.legal[np.arange(len(rows)), np.array(chosen, int)].all()
    singly = np.stack(list(map(policy.logits_for(case.header), questions)))
    together = policy.logits(observation)
    np.testing.assert_allclose(together, singly, rtol=1e-4, atol=1e-4)
    inputs = policy.actions.encode(np, Observation(*observation), policy.normalisation)
    raw = logits(policy.layers, inputs)
    assert np.array_equal(raw if observation.legal is None else np.where(observation.legal, raw, -np.inf), together)


@pytest.mark.parametrize("name", SPACES)
def test_what_learners_keep_of_actions(name):
    space = SPACES[name]
    if name == "scalar":
        outputs = np.array([-2.5, -0.5, 0.0, 0.25, 7.0], np.float32)
        assert space.targets(space.greedy(np, outputs)).tolist() == pytest.approx(outputs.tolist(), abs=1e-4)
    else:
        assert space.targets(np.array([0, 1])).tolist() == [0, 1]
        assert space.targets(np.array([0, 1])).dtype == np.uint8
