"""Names of policies, made and read."""

import pytest

from mlgo.base.names import PolicyName, train_set_of
from mlgo.errors import ArtifactError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (PolicyName("es", 0), "es-s0"),
        (PolicyName("es,es.step_size=0.1", 12), "es,es.step_size=0.1-s12"),
        (PolicyName("my-s1-learner", 3), "my-s1-learner-s3"),
        (PolicyName("main-both", 1), "main-both-s1"),
    ],
)
def test_a_name_reads_back(name, text):
    assert str(name) == text
    assert PolicyName.of(text) == PolicyName.find(text) == name


@pytest.mark.parametrize("text", ["never", "es-mean", "es-s0 c++", "-s0", "es-s", "es-s-1", "es-s0.parquet", ""])
def test_what_is_no_name(text):
    assert PolicyName.find(text) is None
    with pytest.raises(ArtifactError, match="names no policy; its folder must be called <learner>-s<seed>"):
        PolicyName.of(text)


def test_the_train_set_of_a_learner():
    assert [train_set_of(text) for text in ("main-c", "llvm19-x-c+both")] == ["c", "c+both"]
    with pytest.raises(ArtifactError, match="names no training"):
        train_set_of("main")
