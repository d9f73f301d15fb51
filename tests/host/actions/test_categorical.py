"""A legal column, or choosing until the stop, by hand."""

import math

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.errors import PolicyError
from mlgo.host.actions import Categorical, Observation, Subset
from mlgo.host.log import Header
from mlgo.policy.features import Normalisation
from mlgo.policy.policy import ExploringAdvisor
from tests.fakes.policies import linear_policy
from tests.host.actions import cases

COLUMNS, HEADER = cases.COLUMNS, cases.CASES["categorical"].header
FEATURES = ("use_def_density", "progress")
SPACE = Categorical("mask")


def payload(mask, density, progress=0.5):
    return np.array([*mask, 0, 0, 0, 0], np.int64).tobytes() + np.array([*density, progress], np.float32).tobytes()


def policy(weights, features=FEATURES, hidden=()):
    return linear_policy("regalloc-evict", features, weights, hidden)


def answers(advisor, payloads):
    return cases.answers(advisor, HEADER, payloads)


def test_a_single_number_goes_to_all_columns():
    rows = np.frombuffer(payload([1, 0, 1, 1], [0.1, 0, 0.3, 0.4], 0.75), np.uint8)[None]
    values, legal = SPACE.reader(HEADER, FEATURES)(rows)
    assert legal.tolist() == [[True, False, True, True]]
    assert values[0, :, 0].tolist() == pytest.approx([0.1, 0.0, 0.3, 0.4])
    assert values[0, :, 1].tolist() == [0.75] * 4


def test_the_last_column_has_inputs_of_its_own():
    features = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    inputs = SPACE.encode(np, Observation(features), lambda values, xp: values)
    assert inputs.tolist() == [[1, 2, 0, 0, 0], [3, 4, 0, 0, 0], [5, 6, 5, 6, 1]]


def test_the_last_input_tells_what_is_legal():
    rows = np.frombuffer(payload([1, 0, 1, 1], [0.1, 0, 0.3, 0.4], 0.75), np.uint8)[None]
    seen = policy([1, 0, 0, 0, 0, 0]).inputs_for(HEADER)(rows)
    assert seen.shape == (1, COLUMNS, 6)
    assert seen[0, :, -1].tolist() == [1.0, 0.0, 1.0, 1.0]


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


@pytest.mark.parametrize(
    ("features", "message"),
    [(("progress", "weight"), "lacks 1 of the policy's features \\(weight\\)"), (FEATURES, "mask")],
)
def test_what_the_compiler_does_not_offer(features, message):
    kept = tuple(spec for spec in HEADER.features if spec.name != "mask")
    header = HEADER if "weight" in features else Header(kept, HEADER.advice)
    with pytest.raises(PolicyError, match=message):
        policy([0] * 6, features).respond_to(header)


def test_features_of_other_widths():
    odd = Header((*HEADER.features, TensorSpec("odd", np.dtype(np.float32), (1, 3))), HEADER.advice)
    with pytest.raises(PolicyError, match=r"\[3\] numbers, the mask has 4"):
        policy([0] * 4, ("odd",)).respond_to(odd)


def test_columns_are_drawn_with_the_policys_probabilities():
    # Logits log 1, log 3 and log 4 of the legal columns: probabilities 1/8, 3/8 and 4/8.
    densities = [np.expm1(np.log(share)) if share else 0.0 for share in (1, 0, 3, 4)]
    question, one = payload([1, 0, 1, 1], densities), policy([1, 0, 0, 0, 0, 0])
    share = shares_of_columns(one, 1.0, 0.0, question)
    assert share == pytest.approx([1 / 8, 0, 3 / 8, 4 / 8], abs=0.03)  # standard error 0.008
    # At temperature 1/2 the odds are squared; a third of the answers is any legal column.
    share = shares_of_columns(one, 0.5, 0.0, question)
    assert share == pytest.approx([1 / 26, 0, 9 / 26, 16 / 26], abs=0.03)
    share = shares_of_columns(one, 0.0, 1 / 3, question)
    assert share == pytest.approx([1 / 9, 0, 1 / 9, 7 / 9], abs=0.03)


def shares_of_columns(one, temperature, flip_share, question, repeats=4000):
    logits = one.logits_for(HEADER)(question)
    chosen = [SPACE.sampler(temperature, flip_share, seed)(question, logits) for seed in range(repeats)]
    assert answers(ExploringAdvisor(one, temperature, flip_share, 0), [question]) == chosen[:1]
    return (np.bincount(chosen, minlength=COLUMNS) / repeats).tolist()


def test_legal_columns_come_first_in_demonstrations():
    legal = np.array([[False, True, True], [True, False, False]])
    observation = Observation(np.arange(6, dtype=np.float32).reshape(2, 3, 1), legal)
    scaling = Normalisation(("a",), np.zeros(1, np.float32), np.ones(1, np.float32))
    seen, targets = SPACE.demonstrations(observation, scaling, np.array([2, 0]))
    assert seen.dtype == np.float16
    assert targets.tolist() == [1, 0]
    assert seen[..., -1].tolist() == [[1, 1], [1, 0]]
    assert np.expm1(seen[..., 0].astype(float))[[0, 0, 1], [0, 1, 0]] == pytest.approx([1, 2, 3], abs=0.01)
    assert seen[0, :, 2].tolist() == [0, 1]  # the last column, where legal, is marked as such


def test_probabilities_by_hand(keras):
    # Outputs 0, ln 3 and 5 for inputs 0, 1 and 2; the last column is not legal.
    table = np.array([0.0, math.log(3.0), 5.0], np.float32)
    inputs = np.array([[[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]], np.float32)
    logits = SPACE.logits(lambda values: table[values[..., 0].astype(int)][..., None], inputs)
    found = [float(SPACE.log_prob(keras.ops, logits, np.array([answer], np.float32))[0]) for answer in range(3)]
    assert np.exp(found).tolist() == pytest.approx([0.25, 0.75, 0.0])
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert float(SPACE.entropy(keras.ops, logits)[0]) == pytest.approx(expected)


def test_margins_by_hand():
    logits = np.array([[1.0, 3.0, 2.5], [0.0, -np.inf, -np.inf], [2.0, 2.0, -np.inf]])
    assert SPACE.margin(logits).tolist() == [0.5, np.inf, 0.0]
    assert SPACE.margin(np.array([[4.0]])).tolist() == [np.inf]


def test_rows_of_candidates_and_the_stop():
    candidates = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    rows = Subset().rows(candidates, np.array([7.0], np.float32))
    assert np.array_equal(rows, np.array([[0.1, 0.2, 7, 0], [0.3, 0.4, 7, 0], [0, 0, 7, 1]], np.float32))
    assert rows.shape[1] == Subset().num_inputs(3)


def test_stopping_is_always_possible_where_nothing_is_left():
    left, none = np.array([True, False]), np.zeros(2, bool)
    assert Subset().legal(left).tolist() == [True, False, True]
    assert Subset().legal(left, stop=False).tolist() == [True, False, False]
    assert Subset().legal(none, stop=False).tolist() == [False, False, True]
