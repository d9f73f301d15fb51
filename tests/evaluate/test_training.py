"""What a training sees when it is held to some languages."""

from pathlib import Path

import pyarrow as pa
import pytest

from mlgo.base.artifacts import MODULES, SCORES, VOCABULARY, trace_schema, write_rows
from mlgo.errors import TrainingError
from mlgo.evaluate.training import trace_of_languages, training_modules
from mlgo.policy.vocabulary import build_vocabulary

VALUES = {  # of the one feature, by project, module, language and split
    ("a", "x.c", "c", "train"): [9, 1, 5],
    ("a", "y.cc", "c++", "train"): [100, 300],
    ("b", "y.cc", "c++", "validation"): [700],
    ("b", "z.c", "c", "validation"): [40, 30],
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = []
    for project, module, language, split in VALUES:
        row = {field.name: 0 if pa.types.is_integer(field.type) else "" for field in MODULES}
        row |= {"project": project, "module": module, "language": language, "split": split}
        rows.append(row | {"bitcode_sha256": f"{project}/{module}"})
    write_rows(tmp_path / "modules.parquet", rows, MODULES, {})
    return tmp_path


@pytest.fixture
def trace() -> pa.Table:
    rows = [
        {"project": project, "module": module, "context": "", "step": step, "f": value, "answer": step % 2}
        for (project, module, _, _), values in VALUES.items()
        for step, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, trace_schema(["f"]).remove_metadata())


@pytest.fixture
def vocabulary() -> pa.Table:
    return build_vocabulary({"f": pa.array([9, 1, 5, 100, 300]).to_numpy()}, 3)


def test_a_language_has_its_own_questions_and_quantiles(corpus, trace, vocabulary):
    left, found = trace_of_languages(trace, vocabulary, corpus, ["c"])
    assert left["f"].to_pylist() == [9, 1, 5, 40, 30]  # validation modules too, for the clone
    assert left.schema == trace.schema
    assert found.to_pylist() == [{"feature": "f", "quantiles": [1.0, 5.0, 9.0], "num_distinct": 3}]
    left, found = trace_of_languages(trace, vocabulary, corpus, ["c++"])
    assert left["f"].to_pylist() == [100, 300, 700]
    assert found["quantiles"].to_pylist() == [[100.0, 100.0, 300.0]]


def test_both_languages_change_nothing(corpus, trace, vocabulary):
    left, found = trace_of_languages(trace, vocabulary, corpus, ["c++", "c"])
    assert left == trace
    assert found == vocabulary
    assert found.schema == VOCABULARY.remove_metadata()


def test_a_language_without_training_questions(corpus, trace, vocabulary):
    with pytest.raises(TrainingError, match="the trace holds no question"):
        trace_of_languages(trace.slice(3), vocabulary, corpus, ["c"])


def test_modules_to_train_and_validate_on(corpus, tmp_path):
    unknown = {"object_sha256": "", "failure": "", "message": "", "truncated": False}
    scores = [
        {"project": project, "module": module, "advisor": advisor, "exec_bytes": 1, "text_bytes": 2, "num_questions": 3}
        for project, module, _, _ in VALUES
        for advisor in ("heuristic", "echo")
    ]
    write_rows(tmp_path / "scores.parquet", [one | unknown for one in scores], SCORES, {"task": "inline-size"})
    for languages, expected in (
        (None, (["a/x.c", "a/y.cc"], ["b/y.cc", "b/z.c"])),
        (["c"], (["a/x.c"], ["b/z.c"])),
        (["c++"], (["a/y.cc"], ["b/y.cc"])),
    ):
        found = training_modules(corpus, tmp_path, "marginal", 1000, 2000, 0, languages)
        assert tuple([one.module.key for one in part] for part in found) == expected
    with pytest.raises(TrainingError, match=r"no c/c\+\+ train module asks between 1 and 2 questions; raise marginal"):
        training_modules(corpus, tmp_path, "marginal", 2, 2000, 0, ["c", "c++"])
