"""Whole programs and ThinLTO's modules from sources to report, on the sample corpus with the real compiler."""

import json

import pytest

from mlgo.base.artifacts import MODULES, RESULTS, SCORES, read_provenance, read_table
from mlgo.policy.stored import load_policy
from tests.pipeline.conftest import ran

pytestmark = pytest.mark.slow


COMPILE = {"whole": "{objective: linked_bytes, ships: {form: whole, folding: all}}", "thin": "{ships: {form: thin}}"}


@pytest.fixture(scope="module", params=COMPILE)
def run(request, tmp_path_factory):
    preset = f"compile: {COMPILE[request.param]}\ntrain: {{algorithms: [bc, marginal]}}\n"
    return request.param, ran(tmp_path_factory.mktemp(request.param), preset).root / "data"


def test_modules_are_linked_files_or_parts_of_them(run):
    form, data = run
    names = read_table(data / "corpus/modules.parquet", MODULES)["module"].to_pylist()
    files = {"calc.so", "codec.so", "geometry.so", "graph.so", "hashmap.so", "json.so", "lz.so", "matrix.so"}
    assert {name.split(":")[0] for name in names} == files
    assert (len(names) == len(files)) == (form == "whole")
    assert read_provenance(data / "corpus/projects/lz.parquet")["form"] == form


def test_policies_are_trained_and_evaluated_on_them(run):
    form, data = run
    scores = read_table(data / "baseline/scores.parquet", SCORES)
    assert set(scores["failure"].to_pylist()) == {""}
    assert (scores["linked_bytes"].null_count == 0) == (form == "whole")
    results = read_table(data / "evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["policy"] for row in results} == {"bc", "marginal"}
    assert all(row["num_questions"] for row in results if row["language"] == "c++")
    assert json.loads((data / "report/metrics.json").read_text())


MIXED = """
corpus: {splits: {train: [json, json@whole, json@thin, lz], validation: [graph], test: [calc]}}
train: {algorithms: [marginal]}
"""


def test_a_training_project_in_several_forms(tmp_path):
    data = ran(tmp_path, MIXED).root / "data"
    rows = read_table(data / "corpus/modules.parquet", MODULES).to_pylist()
    taken = [(row["project"], row["module"]) for row in rows if not row["skip_reason"]]
    sources = {name for project, name in taken if project == "json"}
    assert len(sources) > 1
    assert [name for project, name in taken if project == "json@whole"] == ["json@whole.so"]
    assert {name for project, name in taken if project == "json@thin"} == {f"json@thin.so:{name}" for name in sources}
    assert {row["split"] for row in rows if row["project"].startswith("json")} == {"train"}
    scores = read_table(data / "baseline/scores.parquet", SCORES).to_pylist()
    assert {row["failure"] for row in scores} == {""}
    assert {row["project"] for row in scores} == {"json", "json@whole", "json@thin", "lz", "graph", "calc"}
    assert load_policy(data / "policies/marginal-s0").features
