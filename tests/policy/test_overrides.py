"""Answers changed at single questions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.files import read_record, write_record
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, PolicyError
from mlgo.host.log import Header
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, PureAdvisor
from mlgo.policy.policy import Overrides, OverridingAdvisor, observation_keys
from mlgo.policy.stored import load_policy, model_sha256, save_policy
from tests.fakes.policies import linear_policy

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


FEATURES = ("callsite_cost", "threshold", "node_count")
OFFERED = Header(tuple(TensorSpec(name, INT64, (1,)) for name in FEATURES), TensorSpec("answer", INT64, (1,)))


def tuned(answers):
    """Inlines where the cost is above 0, but for rows of cost and threshold."""
    base = linear_policy("inline-size", ("callsite_cost",), [1, 0])
    questions = np.array(list(answers), np.int64).reshape(-1, 2)
    return replace(base, overrides=Overrides(FEATURES[:2], questions, np.array(list(answers.values()), np.int64)))


def asked(policy, rows, header=OFFERED):
    payloads = np.array(rows, np.int64)
    respond = policy.respond_to(header)
    single = [int(np.frombuffer(respond(row.tobytes()), np.int64)[0]) for row in payloads]
    assert policy.decide_for(header)(payloads.view(np.uint8)).tolist() == single
    return single


def test_a_tuned_policy_knows_its_questions_by_what_they_hold(tmp_path):
    policy = tuned({(5, 1): 0, (-5, 2): 1})
    save_policy(policy, tmp_path / "tuned")
    save_policy(policy.base, tmp_path / "base")
    again = load_policy(tmp_path / "tuned")
    assert again.features == ("callsite_cost", "threshold")
    rows = [[5, 1, 0], [5, 1, 99], [5, 2, 0], [-5, 2, 0], [-5, 1, 0]]  # the third feature does not count
    assert asked(again, rows) == asked(policy, rows) == [0, 0, 1, 1, 0]
    assert asked(again.base, rows) == [1, 1, 1, 0, 0]
    swapped = Header((OFFERED.features[1], OFFERED.features[0]), OFFERED.advice)
    assert asked(again, [[1, 5], [2, 5]], swapped) == [0, 1]  # features are known by name
    hashes = {model_sha256(tmp_path / name) for name in ("tuned", "base")}
    save_policy(tuned({(5, 1): 0, (-5, 2): 0}), tmp_path / "other")
    assert len(hashes | {model_sha256(tmp_path / "other")}) == 3
    with pytest.raises(PolicyError, match="lacks 1 of the policy's features"):
        again.respond_to(Header(OFFERED.features[:1], OFFERED.advice))
    with pytest.raises(PolicyError, match="was tuned to a program; take its base"):
        again.network()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": [[1, 2, 1], [1, 2, 0]]}, "a question twice"),
        ({"rows": [[1, 2, 7]]}, "do not answer yes or no"),
        ({"rows": []}, "do not answer yes or no"),
        ({"rows": [[1, 2]]}, "cannot reshape"),
        ({"rows": [[1, 2**64, 1]]}, "too large"),
        ({"rows": [[1, True, 1]]}, "whole numbers"),
        ({"rows": 7}, "not iterable"),
        ({"features": [1, 2]}, "whole numbers by features"),
    ],
)
def test_damaged_overrides(tmp_path, change, reason):
    save_policy(tuned({(5, 1): 0}), tmp_path)
    record = read_record(tmp_path / "policy.json")
    write_record(tmp_path / "policy.json", record | {"overrides": record["overrides"] | change})
    with pytest.raises(ArtifactError, match=reason):
        load_policy(tmp_path)


def test_a_tuned_base_is_refused(tmp_path):
    save_policy(tuned({(5, 1): 0}), tmp_path)
    write_record(tmp_path / "policy.json", read_record(tmp_path / "policy.json") | {"base": 6})
    with pytest.raises(ArtifactError, match="its base was tuned, too"):
        load_policy(tmp_path)
