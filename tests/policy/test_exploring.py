"""Exploration: how often, and always the same."""

import dataclasses
import math

import numpy as np
import pytest

from mlgo.core.types import TensorSpec
from mlgo.policy.exploring import ExploringAdvisor, sigmoid
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.wire.log import Header

INT64 = np.dtype(np.int64)
HEADER = Header((TensorSpec("a", INT64, (1,)), TensorSpec("b", INT64, (1,))), TensorSpec("decision", INT64, (1,)))
ROWS = np.stack([np.arange(4000) % 2, np.arange(4000)], axis=1)
PAYLOADS = np.ascontiguousarray(ROWS).view(np.uint8)


def policy(*weights):
    """Logit ``weights[0] * slog(a) + weights[1]``; b only makes observations differ."""
    scaling = Normalisation(("a",), np.zeros(1, np.float32), np.ones(1, np.float32))
    return NetworkPolicy("inline-size", scaling, Architecture((1, 1)), np.array(weights, np.float32))


def test_without_luck_it_is_the_policy():
    base = policy(1.0, -0.1)  # yes where a is 1
    answers = ExploringAdvisor(base, 0.0, 0.0, 5).decide_for(HEADER)(PAYLOADS)
    assert answers.tolist() == ROWS[:, 0].tolist() == base.decide_for(HEADER)(PAYLOADS).tolist()


def test_share_of_flips():
    answers = ExploringAdvisor(policy(1.0, -0.1), 0.0, 0.1, 5).decide_for(HEADER)(PAYLOADS)
    flipped = answers != ROWS[:, 0]
    # Standard error of a share of 0.1 over 2,000 questions: 0.0067.
    assert flipped[::2].mean() == pytest.approx(0.1, abs=0.03)
    assert flipped[1::2].mean() == pytest.approx(0.1, abs=0.03)


def test_temperature_softens_the_logit():
    constant = policy(0.0, math.log(3.0))  # sigmoid(ln 3) = 3/4; at temperature 2, sqrt(3) / (1 + sqrt(3)) = 0.634
    assert ExploringAdvisor(constant, 1.0, 0.0, 5).decide_for(HEADER)(PAYLOADS).mean() == pytest.approx(0.75, abs=0.03)
    assert ExploringAdvisor(constant, 2.0, 0.0, 5).decide_for(HEADER)(PAYLOADS).mean() == pytest.approx(0.634, abs=0.03)
    # 3/4 of yes, a tenth of all turned around: 0.75 * 0.9 + 0.25 * 0.1 = 0.7.
    assert ExploringAdvisor(constant, 1.0, 0.1, 5).decide_for(HEADER)(PAYLOADS).mean() == pytest.approx(0.7, abs=0.03)


def test_same_luck_for_the_same_seed_and_another_for_another():
    advisor = ExploringAdvisor(policy(0.0, 0.0), 1.0, 0.0, 5)
    answers = advisor.decide_for(HEADER)(PAYLOADS)
    assert answers.tolist() == advisor.decide_for(HEADER)(PAYLOADS).tolist()
    assert answers[::-1].tolist() == advisor.decide_for(HEADER)(PAYLOADS[::-1]).tolist()  # order does not matter
    other = dataclasses.replace(advisor, seed=6).decide_for(HEADER)(PAYLOADS)
    assert (answers == other).mean() == pytest.approx(0.5, abs=0.04)


def test_one_by_one_as_all_at_once():
    advisor = ExploringAdvisor(policy(2.0, -1.0), 0.7, 0.05, 9)
    respond = advisor.respond_to(HEADER)
    single = [int.from_bytes(respond(payload.tobytes()), "little") for payload in PAYLOADS[:500]]
    assert single == advisor.decide_for(HEADER)(PAYLOADS[:500]).tolist()


@pytest.mark.parametrize(("logit", "chance"), [(0.0, 0.5), (math.log(9.0), 0.9), (1e6, 1.0), (-1e6, 0.0)])
def test_sigmoid(logit, chance):
    assert sigmoid(logit) == pytest.approx(chance)
