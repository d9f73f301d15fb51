"""The baseline of projects joined: what learners take from it comes from the training projects alone."""

import subprocess
import sys

import pyarrow as pa
import pytest
import yaml

from mlgo.base.artifacts import (
    COPIES,
    FUNCTIONS,
    MODULES,
    SCORES,
    VOCABULARY,
    provenance,
    read_table,
    trace_schema,
    write_rows,
)
from mlgo.base.files import read_record
from tests.conftest import REPOSITORY

SPLITS = {"learnt": "train", "checked": "validation", "judged": "test"}
VALUES = {"learnt": [1, 2, 3], "checked": [500, 600], "judged": [-7000, 9000]}
"""Of the one feature, by project."""


def blank(schema: pa.Schema) -> dict:
    return {one.name: 0 if pa.types.is_integer(one.type) else None if one.nullable else "" for one in schema}


@pytest.fixture
def parts(tmp_path):
    origin = provenance(task="inline-size")
    modules = []
    for project, split in SPLITS.items():
        key = {"project": project, "module": "m.c"}
        modules.append({**blank(MODULES), **key, "split": split, "bitcode_sha256": project})
        names = ("heuristic", "echo") if split == "train" else ("heuristic", "echo", "never", "random")
        scores = [{**blank(SCORES), **key, "advisor": name, "truncated": False, "text_bytes": 10} for name in names]
        steps = [{**key, "context": "", "step": i, "f": f, "answer": 0} for i, f in enumerate(VALUES[project])]
        for kind, schema, rows in (
            ("scores", SCORES, scores),
            ("functions", FUNCTIONS, []),
            ("copies", COPIES, []),
            ("trace", trace_schema(["f"]), steps),
        ):
            write_rows(tmp_path / f"parts/{project}.{kind}.parquet", rows, schema, origin)
    write_rows(tmp_path / "corpus/modules.parquet", modules, MODULES, {})
    return tmp_path


def test_the_vocabulary_knows_training_projects_only(parts):
    folders = ["--corpus", parts / "corpus", "--parts", parts / "parts", "--output", parts / "baseline"]
    settings = {
        "corpus": {"splits": {split: [project] for project, split in SPLITS.items()}},
        "baseline": {"num_quantiles": 3, "max_failed_share": 0.0},
    }
    (parts / "preset.yaml").write_text(yaml.safe_dump(settings))
    program = [sys.executable, REPOSITORY / "scripts/merge_baseline.py", "--preset", parts / "preset.yaml", *folders]
    subprocess.run(program, check=True, cwd=REPOSITORY)
    vocabulary = read_table(parts / "baseline/vocabulary.parquet", VOCABULARY).to_pylist()
    assert vocabulary == [{"feature": "f", "quantiles": [1.0, 2.0, 3.0], "num_distinct": 3}]
    summary = read_record(parts / "baseline/summary.json")
    assert summary["modules"] == summary["self_test_passed"] == len(SPLITS)
    assert summary["text_bytes"] == {"heuristic": 10 * len(SPLITS), "echo": 10 * len(SPLITS)}
    trace = read_table(parts / "baseline/trace.parquet")
    assert sorted(trace["f"].to_pylist()) == sorted(
        [*VALUES["learnt"], *VALUES["checked"], *VALUES["judged"]]
    )  # the questions of all are kept
