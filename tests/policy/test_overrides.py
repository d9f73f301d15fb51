"""Answers changed at single questions."""

import pickle

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.host.log import Header
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, PureAdvisor
from mlgo.policy.policy import OverridingAdvisor, observation_keys

INT64 = np.dtype(np.int64)
HEADER = Header(tuple(TensorSpec(name, INT64, (1,)) for name in "abc"), TensorSpec("decision", INT64, (1,)))
ROWS = np.array([[1, 0, 5], [1, 0, 6], [0, 1, 5], [1, 1, 5]], np.int64)
PAYLOADS = ROWS.view(np.uint8)


def answers_of(advisor):
    """Answers of an advisor, which must be the same one by one and all at once."""
    respond = advisor.respond_to(HEADER)
    single = [int(np.frombuffer(respond(row.tobytes()), np.int64)[0]) for row in ROWS]
    assert advisor.decide_for(HEADER)(PAYLOADS).tolist() == single
    return single


def test_only_the_recorded_observation_is_answered_otherwise():
    base = EchoAdvisor("b")
    assert answers_of(base) == [0, 0, 1, 1]
    key = observation_keys(HEADER, PAYLOADS)[2]
    advisor = OverridingAdvisor(base).with_answers({key: 0})
    assert answers_of(OverridingAdvisor(base)) == [0, 0, 1, 1]
    assert answers_of(advisor) == [0, 0, 0, 1]
    assert answers_of(advisor.with_answers({key: 1})) == [0, 0, 1, 1]  # the newer answer counts
    assert isinstance(advisor, PureAdvisor)
    assert answers_of(pickle.loads(pickle.dumps(advisor))) == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("ignored", "groups"), [((), 4), (("absent",), 4), (("c",), 3), (("b", "c"), 2), (("a", "b", "c"), 1)]
)
def test_ignored_features_do_not_tell_questions_apart(ignored, groups):
    keys = observation_keys(HEADER, PAYLOADS, ignored)
    assert len(set(keys)) == groups
    advisor = OverridingAdvisor(ConstantAdvisor(0), {keys[0]: 1}, ignored)
    assert answers_of(advisor) == [int(key == keys[0]) for key in keys]
