"""The guide to adding a task, followed to the letter: what it names is there, and its example runs to the report."""

import csv
import json

import pytest

from mlgo.base.artifacts import RESULTS, SCORES, read_table
from mlgo.base.files import read_record
from mlgo.deploy.export import FORMS
from tests.pipeline.conftest import ROOT, Checkout
from tests.pipeline.guide import follow, read_steps

GUIDE = ROOT / "docs/adding-a-task.md"
LEARNERS = ("bc", "bcmax", "marginal")


@pytest.fixture(scope="module")
def steps():
    return read_steps(GUIDE.read_text())


def test_a_task_fits_eight_files(steps):
    generated = {"workflow/schemas/config.schema.json"}
    assert len({step.path for step in steps if step.verb != "Run"} | generated) <= 8


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_runs_to_the_report(steps, tmp_path):
    checkout = Checkout(tmp_path)
    follow(steps, checkout)
    data = checkout.root / "data"
    scores = read_table(data / "baseline/scores.parquet", SCORES).to_pylist()
    assert {row["advisor"] for row in scores} == {"heuristic", "cheap", "never", "random"}
    assert {row["failure"] for row in scores} == {""}
    objects = {(row["advisor"], row["project"], row["module"]): row["object_sha256"] for row in scores}
    same = [objects["cheap", *key] == found for (advisor, *key), found in objects.items() if advisor == "heuristic"]
    assert sum(same) > 0.8 * len(same)
    assert json.loads((data / "baseline/summary.json").read_text())["self_test_passed"] is None
    results = read_table(data / "evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["policy"] for row in results} == set(LEARNERS)
    assert {row["failure"] for row in results} == {""}
    assert all(row["num_inlined"] <= row["num_questions"] for row in results)
    with (data / "policies/bc-s0/history.csv").open() as file:
        assert float([row["validation_accuracy"] for row in csv.DictReader(file)][-1]) > 0.9
    with (data / "policies/marginal-s0/history.csv").open() as file:
        first = next(csv.DictReader(file))
    assert abs(float(first["validation_reward"])) < 0.01  # its clones decide as the traced rule, and that as LLVM
    for name in LEARNERS:
        assert json.loads((data / f"policies/{name}-s0/policy.json").read_text())["task"] == "inline-blind"
        parity = read_record(data / f"export/{name}-s0/parity.json")
        assert {form: one["mismatches"] for form, one in parity.items()} == dict.fromkeys(FORMS, 0)
    assert "exec_geomean_gain_percent" in json.loads((data / "report/comparisons.json").read_text())["test"]["bc-s0"]
    page = (data / "report/report.html").read_text()
    assert "<h1>Blind inlining policies against the built-in heuristic</h1>" in page
    assert "<em>cheap</em> inlines what is thought to cost less than an instruction" in page
    assert "<th>inlined</th>" in page
    assert "Self-test" not in page
