"""Register eviction from sources to report, on the sample corpus with the real compiler."""

import json

import pytest

from mlgo.artifacts import PROGRAMS, RESULTS, SCORES, read_table
from mlgo.compiler.counting import find_valgrind
from mlgo.errors import ToolchainError
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.stored import load_policy
from tests.pipeline.conftest import Checkout

pytestmark = pytest.mark.slow

SMALL = "es: {generations: 2, pairs: 2, modules: 4, validate_every: 1, validation_modules: 4}\n"


@pytest.fixture(scope="module")
def evicting(tmp_path_factory):
    """A checkout in which the pipeline has run for register eviction."""
    checkout = Checkout(tmp_path_factory.mktemp("evicting"))
    (checkout.root / "small.yaml").write_text(SMALL)
    run = checkout.run(*command(checkout))
    assert run.returncode == 0, run.stderr[-3000:]
    return checkout


def command(checkout, *options):
    return [*checkout.snakemake("config/presets/regalloc.yaml", "small.yaml"), *options]


@pytest.mark.timeout(290)
def test_every_stage_leaves_its_artifacts(evicting):
    data = evicting.root / "data"
    scores = read_table(data / "baseline/scores.parquet", SCORES).to_pylist()
    assert {row["advisor"] for row in scores} == {"heuristic", "lightest", "first", "random"}
    assert {row["failure"] for row in scores} == {""}
    costs = {
        name: sum(row["spill_cost"] for row in scores if row["advisor"] == name) for name in ("heuristic", "first")
    }
    assert 0 < costs["heuristic"] < costs["first"]
    assert all(row["num_questions"] is not None for row in scores if row["advisor"] == "lightest")
    results = read_table(data / "evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["policy"] for row in results} == {"bc", "es"}
    assert all(row["spill_cost"] is not None and row["num_inlined"] is None for row in results)
    assert isinstance(load_policy(data / "policies/es-s0"), ColumnPolicy)


def test_exported_models_choose_as_the_policies(evicting):
    for name in ("bc-s0", "es-s0"):
        parity = json.loads((evicting.root / f"data/export/{name}/parity.json").read_text())
        assert parity["mismatches"] == 0
        assert parity["questions"] > 50


def test_the_report_speaks_of_costs(evicting):
    page = (evicting.root / "data/report/report.html").read_text()
    assert "<h1>Register eviction policies against the built-in allocator</h1>" in page
    assert "gain per module,<br>spill cost" in page
    assert "Self-test" not in page
    metrics = json.loads((evicting.root / "data/report/comparisons.json").read_text())
    assert {"spill_cost_geomean_gain_percent", "text_geomean_gain_percent"} <= set(metrics["test"]["es-s0"])
    run = evicting.run("mlgo", "report")
    assert run.returncode == 0, run.stderr


def test_second_run_has_nothing_to_do(evicting):
    run = evicting.run(*command(evicting, "--dry-run"))
    assert "Nothing to be done" in run.stdout + run.stderr


def test_what_does_not_work_yet_says_so(evicting):
    """A learner for yes or no is refused before it compiles anything."""
    (evicting.root / "more.yaml").write_text("train: {algorithms: [bc, es, marginal, ppo]}\n")
    messages = {
        "ppo": "this works for tasks with yes or no as answer, not for a policy of regalloc-evict",
        "marginal": "marginal learns answers of yes or no, task regalloc-evict has others; take bc or es for it",
    }
    for learner, message in messages.items():
        run = evicting.run(*command(evicting, "more.yaml", "--", f"data/policies/{learner}-s0/policy.json"))
        assert run.returncode != 0
        assert f"error: {message}" in run.stderr


def test_an_objective_of_another_task(evicting):
    (evicting.root / "size.yaml").write_text("compile: {objective: dedup_bytes}\n")
    run = evicting.run(*command(evicting, "size.yaml", "--dry-run"))
    assert run.returncode != 0
    message = "compile.objective: dedup_bytes is not measured for task regalloc-evict; choose one of spill_cost"
    assert message in run.stdout + run.stderr


def test_programs_run_under_all_policies(evicting):
    try:
        find_valgrind()
    except ToolchainError as error:
        pytest.skip(str(error))
    run = evicting.run(*command(evicting, "--", "programs"))
    assert run.returncode == 0, run.stderr[-3000:]
    rows = read_table(evicting.root / "data/execution/programs.parquet", PROGRAMS).to_pylist()
    assert {"heuristic", "lightest", "first", "random-0", "bc-s0", "es-s0"} <= {row["contender"] for row in rows}
    assert all(row["right"] for row in rows)
    shown = evicting.run("mlgo", "programs", "--markdown", "page.md")
    assert shown.returncode == 0, shown.stderr
    assert "| all | es-s0 |" in (evicting.root / "page.md").read_text()
