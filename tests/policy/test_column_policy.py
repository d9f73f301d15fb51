"""Policies and advisors that choose a legal column; expected answers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.core.errors import PolicyError
from mlgo.core.types import TensorSpec
from mlgo.policy.column_advisors import FirstLegalAdvisor, LightestAdvisor, RandomLegalAdvisor
from mlgo.policy.column_policy import ColumnPolicy, Columns, column_inputs
from mlgo.policy.explorers import exploring
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.stored import as_network_policy, load_policy, save_policy
from mlgo.tasks import PureAdvisor
from mlgo.wire.log import Header

COLUMNS = 4
ADVICE = TensorSpec("index_to_evict", np.dtype(np.int64), (1,))
HEADER = Header(
    (
        TensorSpec("mask", np.dtype(np.int64), (1, COLUMNS)),
        TensorSpec("is_hint", np.dtype(np.int64), (1, COLUMNS)),
        TensorSpec("nr_broken_hints", np.dtype(np.float32), (1, COLUMNS)),
        TensorSpec("use_def_density", np.dtype(np.float32), (1, COLUMNS)),
        TensorSpec("progress", np.dtype(np.float32), (1,)),
    ),
    ADVICE,
)
FEATURES = ("use_def_density", "progress")


def payload(mask, density, progress=0.5, hints=(0, 0, 0, 0), broken=(0, 0, 0, 0)):
    floats = np.array([*broken, *density, progress], np.float32)
    return np.array(mask, np.int64).tobytes() + np.array(hints, np.int64).tobytes() + floats.tobytes()


def policy(weights, features=FEATURES, hidden=()):
    scaling = Normalisation(features, np.zeros(len(features), np.float32), np.ones(len(features), np.float32))
    architecture = Architecture((ColumnPolicy.num_inputs(len(features)), *hidden, 1))
    return ColumnPolicy("regalloc-evict", scaling, architecture, np.array(weights, np.float32))


def answers(advisor, payloads):
    respond = advisor.respond_to(HEADER)
    singly = [int(np.frombuffer(respond(one), np.int64)[0]) for one in payloads]
    if isinstance(advisor, PureAdvisor):
        stacked = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), -1)
        assert advisor.decide_for(HEADER)(stacked).tolist() == singly
    return singly


def test_a_single_number_goes_to_all_columns():
    rows = np.frombuffer(payload([1, 0, 1, 1], [0.1, 0, 0.3, 0.4], 0.75), np.uint8)[None]
    columns = Columns(FEATURES, HEADER)
    assert columns.legal(rows).tolist() == [[True, False, True, True]]
    assert columns.values(rows)[0].tolist() == [
        [pytest.approx(0.1), 0.75],
        [0.0, 0.75],
        [pytest.approx(0.3), 0.75],
        [pytest.approx(0.4), 0.75],
    ]


def test_the_last_column_has_inputs_of_its_own():
    inputs = column_inputs(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32))
    assert inputs.tolist() == [[1, 2, 0, 0, 0], [3, 4, 0, 0, 0], [5, 6, 5, 6, 1]]


def test_the_largest_output_among_legal_columns_wins():
    lightest = policy([-1, 0, 0, 0, 0, 0])  # minus the density
    questions = [
        payload([1, 1, 1, 1], [0.4, 0.2, 0.3, 0.9]),
        payload([1, 0, 1, 1], [0.4, 0.2, 0.3, 0.9]),
        payload([1, 0, 0, 1], [0.4, 0.2, 0.3, 0.1]),
        payload([0, 1, 1, 0], [0.0, 0.5, 0.5, 0.0]),  # of equal ones the first
    ]
    assert answers(lightest, questions) == [1, 2, 3, 1]
    # The same, but 2 less for the last column: it is taken only where nothing else is legal.
    assert answers(policy([-1, 0, 0, 0, -2, 0]), [*questions, payload([0, 0, 0, 1], [0, 0, 0, 1])]) == [1, 2, 0, 1, 3]
    # Progress counts for the last column alone: late, nothing is evicted.
    late = policy([-1, 0, 0, 4, -2, 0])
    density = [0.4, 0.2, 0.3, 0.9]
    assert answers(late, [payload([1, 1, 1, 1], density, progress) for progress in (0.0, 0.99)]) == [1, 3]


def test_hidden_layers():
    # relu(density - slog(0.3)) first, minus that: all below 0.3 tie at 0, so the first of them wins.
    weights = [1, 0, 0, 0, 0, -np.log1p(0.3), -1, 0]
    assert answers(policy(weights, hidden=(1,)), [payload([1, 1, 1, 1], [0.5, 0.2, 0.1, 0.9])]) == [1]


@given(st.integers(0, 2**32 - 1))
def test_many_at_once_are_answered_as_one_by_one(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=5 * 8 + 8 + 8 + 1)
    questions = []
    for _ in range(20):
        mask = rng.integers(0, 2, COLUMNS)
        mask[rng.integers(COLUMNS)] = 1
        density = rng.choice([0.0, 0.25, 0.5, 1.0], COLUMNS)  # ties happen
        questions.append(payload(mask, density * mask, rng.random()))
    chosen = answers(policy(weights, hidden=(8,)), questions)
    for question, column in zip(questions, chosen, strict=True):
        assert np.frombuffer(question, np.int64, COLUMNS)[column] == 1


def test_advisors_without_weights():
    questions = [
        payload([0, 1, 1, 1], [0, 0.4, 0.2, 0.9]),
        payload([0, 0, 1, 1], [0, 0, 0.3, 0.3]),  # as heavy as the value itself: nothing is evicted
        payload([1, 1, 0, 1], [0.1, 0.2, 0, 0.9], broken=[1, 0.5, 0, 0]),  # lighter, but breaks more hints
        payload([1, 1, 0, 1], [0.9, 0.8, 0, 0.85], broken=[0, 1, 0, 0]),  # breaks none, but is too heavy
        payload([1, 1, 1, 0], [0.9, 0.7, 0.8, 0]),  # nothing is no choice
        payload([1, 1, 0, 1], [0.5, 0.5, 0, 0.9]),  # equal ones: the first
    ]
    assert answers(LightestAdvisor(), questions) == [2, 3, 1, 1, 1, 0]
    assert answers(FirstLegalAdvisor(), questions) == [1, 2, 0, 0, 0, 0]


def test_random_columns_are_legal_and_repeatable():
    question = payload([0, 1, 0, 1], [0, 0.4, 0, 0.9])
    first, again, other = (answers(RandomLegalAdvisor(7, name), [question] * 60) for name in ("a", "a", "b"))
    assert first == again != other
    assert set(first) == {1, 3}


@pytest.mark.parametrize(
    ("features", "message"),
    [(("progress", "weight"), "lacks 1 of the policy's features \\(weight\\)"), (FEATURES, "mask")],
)
def test_what_the_compiler_does_not_offer(features, message):
    kept = tuple(spec for spec in HEADER.features if spec.name != "mask")
    header = HEADER if "weight" in features else Header(kept, ADVICE)
    with pytest.raises(PolicyError, match=message):
        policy([0] * 6, features).respond_to(header)


def test_features_of_other_widths():
    odd = Header((*HEADER.features, TensorSpec("odd", np.dtype(np.float32), (1, 3))), ADVICE)
    with pytest.raises(PolicyError, match=r"\[3\] numbers, the mask has 4"):
        policy([0] * 4, ("odd",)).respond_to(odd)


def test_on_disk(tmp_path):
    saved = replace(policy([1, 2, 3, 4, 5, 6]), origin={"seed": 1})
    save_policy(saved, tmp_path / "p")
    found = load_policy(tmp_path / "p")
    assert isinstance(found, ColumnPolicy)
    assert found.weights.tolist() == [1, 2, 3, 4, 5, 6]
    assert (found.normalisation.features, found.origin) == (FEATURES, {"seed": 1})
    with pytest.raises(PolicyError, match="not for a policy of regalloc-evict"):
        as_network_policy(found)


def test_another_task_in_the_file(tmp_path):
    save_policy(policy([1, 2, 3, 4, 5, 6]), tmp_path / "p")
    path = tmp_path / "p" / "policy.json"
    path.write_text(path.read_text().replace("regalloc-evict", "inline-size"))
    with pytest.raises(PolicyError, match="5 inputs for 2 features"):
        load_policy(tmp_path / "p")
    path.write_text(path.read_text().replace("inline-size", "unrolling"))
    with pytest.raises(PolicyError, match="task 'unrolling', which this version does not know"):
        load_policy(tmp_path / "p")
    assert NetworkPolicy.num_inputs(2) == 2


def test_inputs_tell_what_is_legal():
    rows = np.frombuffer(payload([1, 0, 1, 1], [0.1, 0, 0.3, 0.4], 0.75), np.uint8)[None]
    one = policy([1, 0, 0, 0, 0, 0])
    inputs = one.inputs_for(HEADER)(rows)
    assert inputs.shape == (1, COLUMNS, 6)
    assert inputs[0, :, -1].tolist() == [1.0, 0.0, 1.0, 1.0]
    columns = Columns(FEATURES, HEADER)
    assert np.array_equal(inputs[..., :-1], column_inputs(one.normalisation(columns.values(rows))))


def test_columns_are_drawn_with_the_policys_probabilities():
    # Scores log 1, log 3 and log 4 of the legal columns: probabilities 1/8, 3/8 and 4/8.
    densities = [np.expm1(np.log(share)) if share else 0.0 for share in (1, 0, 3, 4)]
    question, one = payload([1, 0, 1, 1], densities), policy([1, 0, 0, 0, 0, 0])
    share = count_columns(lambda seed: exploring(one, 1.0, 0.0, seed), question)
    assert share == pytest.approx([1 / 8, 0, 3 / 8, 4 / 8], abs=0.03)  # standard error 0.008
    # At temperature 1/2 the odds are squared; a third of the answers is any legal column.
    share = count_columns(lambda seed: exploring(one, 0.5, 0.0, seed), question)
    assert share == pytest.approx([1 / 26, 0, 9 / 26, 16 / 26], abs=0.03)
    share = count_columns(lambda seed: exploring(one, 0.0, 1 / 3, seed), question)
    assert share == pytest.approx([1 / 9, 0, 1 / 9, 7 / 9], abs=0.03)


def count_columns(advisor, question, repeats=4000):
    chosen = [answers(advisor(seed), [question])[0] for seed in range(repeats)]
    return (np.bincount(chosen, minlength=COLUMNS) / repeats).tolist()


def test_the_same_luck_gives_the_same_columns():
    questions = [payload([1, 1, 1, 1], [0.1, 0.2, 0.3, 0.4], progress) for progress in (0.1, 0.2, 0.3, 0.4, 0.5)]
    one = policy([1, 0, 0, 0, 0, 0])
    first, again, other = (answers(exploring(one, 1.0, 0.1, seed), questions * 4) for seed in (7, 7, 8))
    assert first == again != other
