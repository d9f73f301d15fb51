"""The sealed test set under Snakemake: built without a look, and looked at with a reason alone."""

import shutil

import pytest
import yaml

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.policy.stored import save_policy
from tests.fakes.policies import linear_policy
from tests.pipeline.conftest import Checkout

LOOK = ("look=es-s0", "reason=to test the target")
PAGE = "data/sealed/evaluation/es-s0/objects/report.html"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A checkout with a sealed test set of one project, and a policy that never inlines."""
    copy = Checkout(tmp_path_factory.mktemp("checkout"))
    root = copy.root
    shutil.copytree(root / "data/sample/calc", root / "data/sample/unseen")
    project = {"name": "unseen", "language": "c", "domain": "test", "holds": "a parser"}
    values = {"date": "2026-01-01", "criteria": ["any"], "projects": [project]}
    (root / "config/sealed.yaml").write_text(yaml.safe_dump(values))
    recipe = yaml.safe_load((root / "config/corpora/sample/calc.yaml").read_text())
    recipe |= {"name": "unseen", "path": "data/sample/unseen"}
    (root / "config/sealed/unseen.yaml").write_text(yaml.safe_dump(recipe))
    save_policy(linear_policy("inline-size", ["cost_estimate"], [0, -1]), root / "data/policies/es-s0")
    return copy


def snakemake(copy, *options):
    return copy.run(*copy.snakemake(*options))


def test_a_look_is_two_jobs_and_trains_nothing(sealed):
    jobs = sealed.jobs(*sealed.snakemake("--dry-run", "--config", "seed=9", *LOOK, "--", "sealed"))
    assert jobs == {"build_project": "1", "look": "1", "sealed": "1", "total": "3"}


def test_no_look_without_a_reason(sealed):
    run = snakemake(sealed, "--dry-run", "--config", LOOK[0], "--", "sealed")
    said = run.stdout + run.stderr
    assert run.returncode == 1
    assert "needs a policy and a reason" in said
    assert "Traceback (most" not in said


def test_a_training_recipe_is_refused(sealed):
    recipe = sealed.root / "config/corpora/sample/mine.yaml"
    recipe.write_text("{name: UnSeen, path: data/sample/unseen, license: MIT, units: []}")
    splits = "corpus={splits: {train: [lz, mine], validation: [codec], test: [calc]}}"
    try:
        run = snakemake(sealed, "--dry-run", "--config", splits)
    finally:
        recipe.unlink()
    said = run.stdout + run.stderr
    assert run.returncode == 1
    assert "config/corpora/sample/mine.yaml (corpus.splits.train) is project unseen of the sealed test set" in said
    assert "config/sealed/unseen.yaml" in said
    assert "Traceback (most" not in said


@pytest.mark.slow
def test_a_page_that_is_asked_for_without_a_reason_is_one_line(sealed):
    run = snakemake(sealed, "--", PAGE)
    assert run.returncode == 1
    said = (sealed.root / "data/work/logs/look/sealed.es-s0.objects.log").read_text()
    assert said.startswith("error: unseen: of the sealed test set; give --reason TEXT")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_look_is_logged_and_made_once(sealed):
    sealed.succeed(*sealed.snakemake("--", "sealed_corpus"))
    log = sealed.root / "docs/sealed-looks.md"
    before = log.read_text()
    assert not (sealed.root / PAGE).exists()
    sealed.succeed(*sealed.snakemake("--config", *LOOK, "--", "sealed"))
    assert "es-s0 on unseen" in (sealed.root / PAGE).read_text()
    rows = read_table((sealed.root / PAGE).with_name("results.parquet"), RESULTS).to_pylist()
    assert {row["project"] for row in rows} == {"unseen"}
    (row,) = log.read_text().removeprefix(before).strip().splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[2], cells[5], cells[7]) == ("es-s0", "objects", "to test the target")
    assert "1 program of 1 project" in cells[8]
    assert "look" not in sealed.jobs(*sealed.snakemake("--dry-run", "--config", *LOOK, "--", "sealed"))
