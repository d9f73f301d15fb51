"""A captured build as a project of a corpus: from its build to the report."""

import json
import re
import shutil

import pytest
import yaml

from mlgo.base.artifacts import (
    MODULES,
    PROGRAMS_OF_CORPUS,
    PROJECT,
    SHIPPED_SIZES,
    read_provenance,
    read_table,
    write_table,
)
from mlgo.host.toolchain import find_linker
from tests.cli.test_capture import SOURCES
from tests.pipeline.conftest import Checkout

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("make"), reason="needs make")]


@pytest.fixture(scope="module")
def with_app(tmp_path_factory) -> Checkout:
    """A copy in which a captured project is a test project beside the samples, run to its end."""
    checkout = Checkout(tmp_path_factory.mktemp("captured"))
    root = checkout.root
    (root / "app").mkdir()
    for name, text in SOURCES.items():
        (root / "app" / name).write_text(text)
    shutil.copy(root / "app/used.c", root / "app/unused.c")  # so one of them is a duplicate
    for tool, words in (("CC", "cc"), ("CXX", "c++")):
        checkout.environment[tool] = f"{find_linker()} {words}"
    checkout.succeed("mlgo", "capture", "-o", "captured/app", "--root", "app", "--", "make", "-s", "-C", "app")
    recipe = {"name": "app", "license": "MIT", "captured": "captured/app"}
    (root / "config/corpora/sample/app.yaml").write_text(yaml.safe_dump(recipe))
    splits = {"train": ["lz", "json"], "validation": ["codec"], "test": ["calc", "app"]}
    (root / "own.yaml").write_text(yaml.safe_dump({"corpus": {"splits": splits}, "train": {"algorithms": ["bc"]}}))
    checkout.succeed(*checkout.snakemake("own.yaml"))
    return checkout


def test_its_programs_are_in_the_corpus_with_duplicates(with_app):
    corpus = with_app.root / "data/corpus"
    modules = {row["module"]: row for row in read_table(corpus / "modules.parquet", MODULES).to_pylist()}
    assert modules["unused.c"]["skip_reason"] == ""
    assert modules["used.c"]["skip_reason"] == "duplicate: same code as app/unused.c"
    programs = {row["program"]: row for row in read_table(corpus / "programs.parquet", PROGRAMS_OF_CORPUS).to_pylist()}
    assert set(programs) == {"calc.so", "codec.so", "json.so", "lib.so", "lz.so", "prog"}
    assert [one["module"] for one in programs["prog"]["duplicates"]] == ["used.c"]  # unused.c comes first by name
    assert programs["prog"]["split"] == "test"


def test_its_programs_are_linked_in_the_evaluation_and_in_the_report(with_app):
    data = with_app.root / "data"
    rows = read_table(data / "evaluation/shipped.parquet", SHIPPED_SIZES).to_pylist()
    assert {row["program"] for row in rows} == {"calc.so", "lib.so", "prog"}
    assert {row["failure"] for row in rows} == {""}
    (prog,) = (row for row in rows if (row["program"], row["contender"], row["folded"]) == ("prog", "heuristic", False))
    assert prog["text"] == 11 + 4  # as in tests/cli/test_evaluate.py: never_called is dropped
    page = (data / "report/report.html").read_text()
    assert "3 programs of 2 projects" in page
    figures = json.loads((data / "report/comparisons.json").read_text())["shipped"]["test"]["bc-s0"]
    assert (figures["programs"], figures["projects"]) == (3, 2)


def test_a_new_capture_builds_that_project_again(with_app):
    path = with_app.root / "captured/app/project.parquet"
    write_table(path, read_table(path, PROJECT), PROJECT, {**read_provenance(path), "captured": "again"})
    run = with_app.run(*with_app.snakemake("own.yaml", "--dry-run"))
    output = run.stdout + run.stderr
    assert re.findall(r"^build_project +(\d+)$", output, re.MULTILINE)[:1] == ["1"]
