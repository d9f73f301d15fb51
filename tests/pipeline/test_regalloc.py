"""Register allocation from sources to report, on the sample corpus with the real compiler."""

import json
from dataclasses import dataclass

import pytest

from mlgo.base.artifacts import FUNCTIONS, PROGRAMS, RESULTS, SCORES, read_table
from mlgo.base.files import read_record
from mlgo.deploy.export import FORMS
from mlgo.evaluate.baseline import function_costs
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy
from tests.pipeline.conftest import Checkout

pytestmark = pytest.mark.slow

SMALL = """
train: {algorithms: [bc, bcmax, es, ppo]}
bcmax: {rounds: 1, flipped: 1, perturbed: 1, modules: 4, validation_modules: 4}
es: {generations: 2, pairs: 2, modules: 4, validate_every: 1, validation_modules: 4}
ppo: {iterations: 2, modules: 4, episodes: 2, validate_every: 1, validation_modules: 4}
"""
LEARNERS = ("bc", "bcmax", "es", "ppo")


@dataclass(frozen=True)
class Case:
    """A task in register allocation and what is particular to it; the first reference is the traced one."""

    task: str
    preset: str
    references: tuple[str, ...]
    title: str


CASES = {
    case.task: case
    for case in (
        Case(
            "regalloc-evict",
            "config/presets/regalloc.yaml",
            ("lightest", "first", "random"),
            "Register eviction policies against the built-in allocator",
        ),
        Case(
            "regalloc-priority",
            "config/presets/priority.yaml",
            ("longest", "equal", "random"),
            "Register priority policies against the built-in allocator",
        ),
    )
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def allocating(case, tmp_path_factory):
    """A checkout in which the pipeline has run for a task in register allocation."""
    checkout = Checkout(tmp_path_factory.mktemp("allocating"))
    (checkout.root / "small.yaml").write_text(SMALL)
    checkout.succeed(*command(checkout, case))
    return checkout


def command(checkout, case, *options):
    return [*checkout.snakemake(case.preset, "small.yaml"), *options]


@pytest.mark.timeout(290)
def test_every_stage_leaves_its_artifacts(allocating, case):
    data = allocating.root / "data"
    scores = read_table(data / "baseline/scores.parquet", SCORES).to_pylist()
    assert {row["advisor"] for row in scores} == {"heuristic", *case.references}
    assert {row["failure"] for row in scores} == {""}
    names = ("heuristic", *case.references[1:])
    judged = {(row["project"], row["module"]) for row in scores if row["advisor"] == names[-1]}
    there = [row for row in scores if (row["project"], row["module"]) in judged]
    costs = {name: sum(row["spill_cost"] for row in there if row["advisor"] == name) for name in names}
    assert costs["heuristic"] > 0
    assert costs["heuristic"] < costs[case.references[1]]
    assert all(row["num_questions"] is not None for row in scores if row["advisor"] == case.references[0])
    results = read_table(data / "evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["policy"] for row in results} == set(LEARNERS)
    assert all(row["spill_cost"] is not None and row["num_inlined"] is None for row in results)
    functions = read_table(data / "evaluation/functions.parquet", FUNCTIONS)
    summed = function_costs(functions, SPILL_COST)
    assert set(summed) == {f"{name}-s0" for name in LEARNERS}
    for row in results:
        by_function = summed[f"{row['policy']}-s{row['seed']}"].get(f"{row['project']}/{row['module']}", {})
        assert sum(by_function.values()) == pytest.approx(row["spill_cost"])
    assert any(functions["num_questions"].to_pylist())
    assert all(isinstance(load_policy(data / f"policies/{name}-s0"), Policy) for name in LEARNERS)
    history = (data / "policies/ppo-s0/history.csv").read_text()
    assert "differing_share" in history


def test_exported_models_choose_as_the_policies(allocating):
    for name in (f"{learner}-s0" for learner in LEARNERS):
        parity = read_record(allocating.root / f"data/export/{name}/parity.json")
        assert {form: one["mismatches"] for form, one in parity.items()} == dict.fromkeys(FORMS, 0)
        assert all(one["questions"] > 50 for one in parity.values())


def test_the_report_speaks_of_costs(allocating, case):
    page = (allocating.root / "data/report/report.html").read_text()
    assert f"<h1>{case.title}</h1>" in page
    assert "gain per project, spill cost" in page
    assert "best of all" in page
    assert "No programs have been run under these policies" in page
    assert "Self-test" not in page
    metrics = json.loads((allocating.root / "data/report/comparisons.json").read_text())
    assert {"spill_cost_geomean_gain_percent", "text_geomean_gain_percent"} <= set(metrics["test"]["es-s0"])
    allocating.succeed("mlgo", "report")


def test_second_run_has_nothing_to_do(allocating, case):
    assert allocating.is_done(*command(allocating, case))


def test_what_does_not_work_yet_says_so(allocating, case):
    """A learner of other answers is refused before it compiles anything."""
    (allocating.root / "more.yaml").write_text("train: {algorithms: [bc, marginal]}\n")
    run = allocating.run(*command(allocating, case, "more.yaml", "--", "data/policies/marginal-s0/policy.json"))
    assert run.returncode != 0
    assert f"error: marginal learns answers of yes or no, task {case.task} has others" in run.stderr


def test_an_objective_of_another_task(allocating, case):
    (allocating.root / "size.yaml").write_text("compile: {objective: dedup_bytes}\n")
    run = allocating.run(*command(allocating, case, "size.yaml", "--dry-run"))
    assert run.returncode != 0
    message = f"compile.objective: dedup_bytes is not measured for task {case.task}; choose one of spill_cost"
    assert message in run.stdout + run.stderr


def test_programs_run_under_all_policies(allocating, case, valgrind):
    allocating.succeed(*command(allocating, case, "--", "programs"))
    rows = read_table(allocating.root / "data/execution/programs.parquet", PROGRAMS).to_pylist()
    assert {"heuristic", *case.references[:2], "random-0", "bc-s0", "es-s0"} <= {row["contender"] for row in rows}
    assert all(row["right"] for row in rows)
    allocating.succeed("mlgo", "report", "programs", "--markdown", "page.md")
    assert "| all | es-s0 |" in (allocating.root / "page.md").read_text()
    # The report is no reason to run programs, but is made anew with what they show.
    allocating.succeed(*command(allocating, case))
    assert "Here is the truth about" in (allocating.root / "data/report/report.html").read_text()
    assert allocating.is_done(*command(allocating, case))
