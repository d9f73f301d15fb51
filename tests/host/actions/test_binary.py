"""Yes or no, by hand."""

import math

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.errors import PolicyError
from mlgo.host.actions import Binary, sigmoid
from mlgo.host.log import Header
from mlgo.policy.policy import ExploringAdvisor
from tests.fakes.policies import linear_policy

INT64 = np.dtype(np.int64)
HEADER = Header((TensorSpec("a", INT64, (1,)), TensorSpec("b", INT64, (1,))), TensorSpec("decision", INT64, (1,)))
ROWS = np.stack([np.arange(4000) % 2, np.arange(4000)], axis=1)
PAYLOADS = np.ascontiguousarray(ROWS).view(np.uint8)


def policy(*weights):
    """Logit ``weights[0] * slog(a) + weights[1]``; b only makes observations differ."""
    return linear_policy("inline-size", ["a"], weights)


def explored(base, temperature, flip_share, seed=5):
    return ExploringAdvisor(base, temperature, flip_share, seed).decide_for(HEADER)(PAYLOADS)


def test_exactly_0_is_no():
    assert Binary().greedy(np, np.array([0.0, 0.1, -0.1])).tolist() == [False, True, False]


def test_without_exploring_it_is_the_policy():
    base = policy(1.0, -0.1)  # yes where a is 1
    assert explored(base, 0.0, 0.0).tolist() == ROWS[:, 0].tolist() == base.decide_for(HEADER)(PAYLOADS).tolist()


def test_share_of_flips():
    flipped = explored(policy(1.0, -0.1), 0.0, 0.1) != ROWS[:, 0]
    # Standard error of a share of 0.1 over 2,000 questions: 0.0067.
    assert [flipped[::2].mean(), flipped[1::2].mean()] == pytest.approx([0.1, 0.1], abs=0.03)


def test_temperature_softens_the_logit():
    constant = policy(0.0, math.log(3.0))  # sigmoid(ln 3) = 3/4; at temperature 2, sqrt(3) / (1 + sqrt(3)) = 0.634
    assert explored(constant, 1.0, 0.0).mean() == pytest.approx(0.75, abs=0.03)
    assert explored(constant, 2.0, 0.0).mean() == pytest.approx(0.634, abs=0.03)
    # 3/4 of yes, a tenth of all turned around: 0.75 * 0.9 + 0.25 * 0.1 = 0.7.
    assert explored(constant, 1.0, 0.1).mean() == pytest.approx(0.7, abs=0.03)


def test_another_seed_decides_otherwise_and_order_does_not_matter():
    base = policy(0.0, 0.0)
    chosen = explored(base, 1.0, 0.0)
    backwards = ExploringAdvisor(base, 1.0, 0.0, 5).decide_for(HEADER)(PAYLOADS[::-1])
    assert chosen[::-1].tolist() == backwards.tolist()
    assert (chosen == explored(base, 1.0, 0.0, 6)).mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize(("logit", "chance"), [(0.0, 0.5), (math.log(9.0), 0.9), (1e6, 1.0), (-1e6, 0.0)])
def test_sigmoid(logit, chance):
    assert sigmoid(logit) == pytest.approx(chance)


def test_headers_of_another_kind():
    vector = Header((*HEADER.features, TensorSpec("mask", INT64, (33,))), HEADER.advice)
    with pytest.raises(PolicyError, match="not one number: mask"):
        Binary().reader(vector, ("a",))
