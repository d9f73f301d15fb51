"""What trainings have found within so many compiles, by hand; seeds stand together if they differ in the seed alone."""

import time

import numpy as np
import pytest

from mlgo.base.files import read_record, write_record
from mlgo.compare.trainings import Curve, budget_curves, check_seeds, with_minutes
from mlgo.errors import ArtifactError
from mlgo.learn.cost import TrainingCost, recorded_cost
from tests.fakes.policies import write_policy


def curve(policy, evaluations, rewards):
    return Curve(
        policy, {"round": list(range(len(evaluations))), "evaluations": evaluations, "validation_reward": rewards}
    )


CURVES = [
    curve("es-s1", [60, 500, 900], [0.0, 0.02, 0.01]),
    curve("bc-s0", [0], [0.0]),
    curve("es-s0", [60, None, 1000], [0.0, None, 0.03]),
    curve("ppo-s0", [90], [0.01]),
    Curve("old-s0", {"epoch": [0.0]}),
]


def test_the_best_until_then_by_seed():
    one, other = budget_curves(CURVES)
    assert (one.learner, one.seeds, other.learner, other.seeds) == ("es", (0, 1), "ppo", (0,))
    assert one.spent.tolist() == [60, 500, 900, 1000]
    assert one.gains.tolist() == [[0, 0, 0, 0.03], [0, 0.02, 0.02, 0.02]]


def test_within_a_budget():
    one, other = budget_curves(CURVES)
    assert one.within(57) is None
    assert one.within(100).tolist() == [0, 0]
    assert one.within(950).tolist() == [0, 0.02]
    assert one.within(1000).tolist() == one.within(1111).tolist() == [0.03, 0.02]  # 1000 is 0.9 of 1111
    assert one.within(1112) is None
    assert one.within(952).tolist() == [0, 0.02]  # 1.05 of it are 999.6
    assert one.within(953).tolist() == [0.03, 0.02]
    assert other.within(100).tolist() == [0.01]


def test_a_seed_that_was_not_validated_yet():
    (found,) = budget_curves([curve("es-s0", [10, 20], [0.5, 0.25]), curve("es-s1", [20], [0.125])])
    assert found.within(15) is None
    assert found.within(20).tolist() == [0.5, 0.125]
    assert np.isnan(found.gains[1, 0])


def test_minutes_at_the_mean_pace_of_a_training(tmp_path):
    # 1,000 compiles in 10 minutes of two cores: 1.2 of a core for each 60. Nothing is known of the other's cost.
    with recorded_cost(tmp_path, "es-s0", TrainingCost("run", workers=2, seconds=600.0), started=time.monotonic()):
        pass
    found = with_minutes(CURVES, tmp_path)
    (one,) = budget_curves(found, "minutes")
    assert (one.learner, one.seeds, one.spent.tolist()) == ("es", (0,), pytest.approx([1.2, 20.0], rel=0.01))
    assert one.within(19) == [0.0]
    assert budget_curves(found)[0].seeds == (0, 1)


PROVENANCE = {
    **{"algorithm": "es", "seed": 0, "compiler": "clang 22", "compiler_sha256": "c1", "target": "x86_64-linux-gnu"},
    **{"corpus_sha256": "a1", "scores_sha256": "b1", "start_sha256": "d1", "validation_reward": 0.01},
}


def write(folder, name, provenance, **vocabulary):
    folder = write_policy(folder / name, {**PROVENANCE, **provenance})
    record = read_record(folder / "policy.json")
    assert vocabulary.keys() <= record.keys()
    write_record(folder / "policy.json", record | vocabulary)
    return folder


def test_seeds_may_differ_in_the_seed_and_what_follows_from_it(tmp_path):
    other = {"seed": 1, "start_sha256": "d2", "validation_reward": 0.02}
    check_seeds([write(tmp_path, "es-s0", {}), write(tmp_path, "es-s1", other)])


def test_learners_may_differ(tmp_path):
    check_seeds([write(tmp_path, "es-s0", {}), write(tmp_path, "bc-s0", {"corpus_sha256": "a2"})])


@pytest.mark.parametrize(
    ("provenance", "vocabulary", "what"),
    [
        ({"corpus_sha256": "a2", "scores_sha256": "b2"}, {}, r"another corpus \(corpus_sha256\)"),
        ({"scores_sha256": "b2"}, {}, "another baseline"),
        ({"compiler": "clang 19", "compiler_sha256": "c2"}, {}, "another compiler"),
        ({"target": "aarch64-linux-gnu"}, {}, "another target"),
        ({"trace_sha256": "e1"}, {}, "another trace of questions"),
        ({}, {"centre": [0.5, 1.0]}, "another vocabulary"),
        ({}, {"features": ["a", "c"]}, "another vocabulary"),
    ],
)
def test_other_inputs_are_refused(tmp_path, provenance, vocabulary, what):
    folders = [write(tmp_path, "es-s0", {}), write(tmp_path, "es-s1", {"seed": 1, **provenance}, **vocabulary)]
    with pytest.raises(ArtifactError, match=f"^es-s0 and es-s1 were trained on different inputs: {what}.*train both"):
        check_seeds(folders)


def test_a_policy_without_provenance(tmp_path):
    path = write(tmp_path, "es-s0", {}) / "policy.json"
    write_record(path, {name: value for name, value in read_record(path).items() if name != "provenance"})
    with pytest.raises(ArtifactError, match=r"es-s0/policy\.json carries no provenance; train the policy again"):
        check_seeds([tmp_path / "es-s0"])
