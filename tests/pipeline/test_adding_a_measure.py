"""The guide to adding a measure, followed to the letter: one file is enough."""

import json

import pytest

from mlgo.base.artifacts import read_table
from tests.pipeline.conftest import ROOT, Checkout
from tests.pipeline.guide import read_steps

GUIDE = ROOT / "docs/adding-a-measure.md"


@pytest.fixture(scope="module")
def steps():
    return read_steps(GUIDE.read_text())


@pytest.fixture
def checkout(steps, tmp_path):
    made = Checkout(tmp_path)
    for step in steps:
        if step.verb != "Run":
            step.apply(made.root)
    return made


def test_the_package_gets_one_file(steps):
    assert [step.path for step in steps if step.path.startswith("mlgo")] == ["mlgo/objects/measures/constants.py"]


def test_a_compile_tells_the_new_measure(steps, checkout):
    first, schema = next(step for step in steps if step.verb == "Run").commands()[:2]
    run = checkout.succeed(*first, "--json")
    record = json.loads(run.stdout)
    assert 0 < record["constant_bytes"] <= record["text_bytes"] - record["exec_bytes"]
    checkout.succeed(*schema)
    properties = json.loads((checkout.root / "workflow/schemas/config.schema.json").read_text())["$defs"]
    assert "constant_bytes" in properties["CompileConfig"]["properties"]["objective"]["enum"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_runs_to_the_report(steps, checkout):
    for command in next(step for step in steps if step.verb == "Run").commands():
        checkout.succeed(*command)
    data = checkout.root / "data"
    scores = read_table(data / "baseline/scores.parquet").to_pylist()
    assert all(row["constant_bytes"] >= 0 for row in scores if not row["failure"])
    assert len({row["constant_bytes"] for row in scores}) > 5
    results = read_table(data / "evaluation/results.parquet").to_pylist()
    plain = {(row["project"], row["module"]): row for row in scores if row["advisor"] == "heuristic"}
    for row in results:
        assert row["constant_bytes"] is not None
        assert row["baseline_constant_bytes"] == plain[row["project"], row["module"]]["constant_bytes"]
    assert json.loads((data / "policies/es-s0/policy.json").read_text())["provenance"]["compile"]["objective"] == (
        "constant_bytes"
    )
    figures = json.loads((data / "report/comparisons.json").read_text())["test"]["es-s0"]
    assert {"constant_geomean_gain_percent", "text_geomean_gain_percent"} <= set(figures)
    assert "read-only data" in (data / "report/report.html").read_text()
