"""Seeds stand together only if their trainings differ in the seed alone."""

import pytest

from mlgo.base.files import write_json
from mlgo.compare.trainings import check_seeds
from mlgo.errors import ArtifactError

PROVENANCE = {
    **{"algorithm": "es", "seed": 0, "compiler": "clang 22", "compiler_sha256": "c1", "target": "x86_64-linux-gnu"},
    **{"corpus_sha256": "a1", "scores_sha256": "b1", "start_sha256": "d1", "validation_reward": 0.01},
}
RECORD = {"task": "inline-size", "features": ["a", "b"], "centre": [0.0, 1.0], "scale": [1.0, 2.0]}


def write(folder, name, provenance, **record):
    write_json(folder / name / "policy.json", {**RECORD, **record, "provenance": {**PROVENANCE, **provenance}})
    return folder / name


def test_seeds_may_differ_in_the_seed_and_what_follows_from_it(tmp_path):
    other = {"seed": 1, "start_sha256": "d2", "validation_reward": 0.02}
    check_seeds([write(tmp_path, "es-s0", {}), write(tmp_path, "es-s1", other)])


def test_learners_may_differ(tmp_path):
    check_seeds([write(tmp_path, "es-s0", {}), write(tmp_path, "bc-s0", {"corpus_sha256": "a2"})])


@pytest.mark.parametrize(
    ("provenance", "record", "what"),
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
def test_other_inputs_are_refused(tmp_path, provenance, record, what):
    folders = [write(tmp_path, "es-s0", {}), write(tmp_path, "es-s1", {"seed": 1, **provenance}, **record)]
    with pytest.raises(ArtifactError, match=f"^es-s0 and es-s1 were trained on different inputs: {what}.*train both"):
        check_seeds(folders)


def test_a_policy_without_provenance(tmp_path):
    write_json(tmp_path / "es-s0/policy.json", RECORD)
    with pytest.raises(ArtifactError, match=r"es-s0/policy\.json carries no provenance; train the policy again"):
        check_seeds([tmp_path / "es-s0"])
