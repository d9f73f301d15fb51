"""`mlgo evaluate` on projects of the sealed test set, in a working copy of its own."""

import json
import os
import shutil
import subprocess

import pytest
import yaml

from mlgo.base.sealed import SEALED, load_sealed
from tests.cli.conftest import MLGO
from tests.cli.test_capture import captured, project
from tests.cli.test_evaluate import policies
from tests.conftest import REPOSITORY

__all__ = ["captured", "policies", "project"]

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A folder with a sealed test set of one project, called Thing."""
    root = tmp_path_factory.mktemp("copy")
    (root / "config/sealed").mkdir(parents=True)
    (root / "docs").mkdir()
    shutil.copy(REPOSITORY / "config/config.yaml", root / "config/config.yaml")
    one = {"name": "Thing", "language": "c", "domain": "test", "holds": "nothing"}
    (root / "config/sealed.yaml").write_text(yaml.safe_dump({"date": "", "criteria": [], "projects": [one]}))
    (root / "config/sealed/Thing.yaml").write_text("name: Thing")
    return root


def evaluate(copy, *arguments):
    environment = {**os.environ, "MLGO_SHARED": str(copy / "shared")}
    words = [MLGO, "evaluate", "--workers", "1", "--json", *arguments]
    return subprocess.run(words, capture_output=True, text=True, cwd=copy, env=environment, check=False, timeout=120)


def test_no_look_without_a_reason(copy, captured, policies):
    run = evaluate(copy, "--policy", policies / "never-s0", "--project", captured)
    assert run.returncode == 1
    assert run.stderr == (
        "error: thing: of the sealed test set; give --reason TEXT, which docs/sealed-looks.md keeps with the result\n"
    )
    assert not (copy / "docs/sealed-looks.md").exists()


@pytest.mark.slow
def test_a_look_is_a_row_with_what_was_seen(copy, captured, policies, tmp_path):
    words = ("--policy", policies / "never-s0", "--project", captured, "--output", tmp_path / "out")
    run = evaluate(copy, *words, "--reason", "a test")
    assert run.returncode == 0, run.stderr
    shipped = {
        (row["program"], row["contender"]): row for row in json.loads(run.stdout)["shipped"] if not row["folded"]
    }
    before, after = (
        sum(row["total"] for (_, name), row in shipped.items() if name == contender)
        for contender in ("heuristic", "never-s0")
    )
    (row,) = [line for line in (copy / "docs/sealed-looks.md").read_text().splitlines() if "never-s0" in line]
    assert "| objects | 1, " in row
    assert f"| a test | {100.0 * (1 - after / before):+.2f} % in total" in row.replace("never-s0: ", "")
    assert "2 programs of 1 project, 0 not measured" in row


def test_a_project_that_is_named_twice_is_refused(captured, policies, tmp_path):
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    run = evaluate(tmp_path, "--policy", policies / "never-s0", "--project", captured, captured, "--output", tmp_path)
    assert run.returncode == 1
    assert run.stderr == "error: --project names thing more than once\n"


def test_a_configuration_with_a_sealed_project_is_refused_in_one_line(refuses, tmp_path):
    name = load_sealed(REPOSITORY / SEALED).names[0]
    (tmp_path / "mine.yaml").write_text((REPOSITORY / f"config/sealed/{name}.yaml").read_text())
    splits = {"train": ["mine"], "validation": ["v"], "test": ["t"]}
    (tmp_path / "preset").write_text(yaml.safe_dump({"corpus": {"recipes": str(tmp_path), "splits": splits}}))
    error = refuses("config", "show", "--preset", tmp_path / "preset")
    assert error.startswith(f"{tmp_path}/mine.yaml (corpus.splits.train) is project ")
    assert f"config/sealed/{name}.yaml" in error
