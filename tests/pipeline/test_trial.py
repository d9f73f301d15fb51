"""A finished policy on one more project, under Snakemake: nothing is trained, and no other project is compiled."""

import shutil

import pytest

from mlgo.base.artifacts import SHIPPED_SIZES, read_table

CAPTURED = "captured/app/evaluation/es-s0/report.html"


@pytest.fixture(scope="module")
def with_project(finished):
    """The finished copy with a project as `mlgo capture` leaves it."""
    for name, kind in (("project", "projects"), ("programs", "programs")):
        target = finished.root / f"captured/app/{name}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(finished.root / f"data/corpus/{kind}/calc.parquet", target)
    return finished


def test_a_captured_project_is_one_job_whatever_else_is_outdated(with_project):
    # Without the preset every corpus, baseline and policy of the copy is outdated.
    options = ("--workflow-profile", "workflow/profiles/default", "--cores", "2", "--dry-run")
    assert with_project.jobs("snakemake", *options, "--", CAPTURED) == {"try_policy": "1", "total": "1"}


def test_a_project_of_a_recipe_is_built_alone(with_project):
    page = "data/trial/lz/evaluation/es-s0/report.html"
    found = with_project.jobs(*with_project.snakemake("--dry-run", "--config", "seed=9", "--", page))
    assert found == {"build_project": "1", "try_policy": "1", "total": "2"}


@pytest.mark.slow
def test_the_page_is_made_once(with_project):
    with_project.succeed(*with_project.snakemake("--", CAPTURED, "data/trial/calc/evaluation/es-s0/report.html"))
    root = with_project.root
    assert "es-s0 on calc" in (root / CAPTURED).read_text()
    captured, built, evaluated = (
        {
            (row["contender"], row["folded"]): row["total"]
            for row in read_table(root / path, SHIPPED_SIZES).to_pylist()
            if row["contender"] in ("heuristic", "es-s0") and row["project"] == "calc"
        }
        for path in (
            "captured/app/evaluation/es-s0/shipped.parquet",
            "data/trial/calc/evaluation/es-s0/shipped.parquet",
            "data/evaluation/shipped.parquet",
        )
    )
    assert captured == built == evaluated
    assert with_project.is_done(*with_project.snakemake("--", CAPTURED))


@pytest.mark.slow
def test_a_policy_that_is_not_there_is_one_line(with_project):
    run = with_project.run(*with_project.snakemake("--", "captured/app/evaluation/none-s0/report.html"))
    assert run.returncode == 1
    log = (with_project.root / "data/work/logs/try_policy/captured/app.none-s0.log").read_text()
    assert log.startswith("error: ")
    assert "data/policies/none-s0" in log
    assert log.count("\n") == 1
