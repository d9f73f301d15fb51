"""The guide to adding a learner, followed to the letter; and its example as a learner of another package."""

import csv
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from mlgo.base.registry import LEARNERS, training_chain
from mlgo.policy.stored import load_policy
from tests.cli.conftest import MLGO
from tests.conftest import REPOSITORY
from tests.pipeline.conftest import ROOT, Checkout
from tests.pipeline.guide import follow, read_steps

GUIDE = ROOT / "docs/adding-a-learner.md"


@pytest.fixture(scope="module")
def steps():
    return read_steps(GUIDE.read_text())


@pytest.fixture(scope="module")
def code(steps) -> str:
    """Source of the example."""
    return next(step.text for step in steps if step.path == "mlgo/learn/search.py")


def install(folder: Path, name: str, code: str, module: str = "other") -> None:
    """Put a package with one learner in a folder, as an installer does."""
    (folder / "other.py").write_text(code)
    about = folder / "other_learner-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-learner\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[mlgo.learners]\n{name} = {module}:LEARNER\n")


def with_package(checkout: Checkout, folder: Path, *command: str) -> subprocess.CompletedProcess:
    environment = {**checkout.environment, "PYTHONPATH": f"{checkout.root}{os.pathsep}{folder}"}
    return subprocess.run(
        command, cwd=checkout.root, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def test_a_learner_is_three_files(steps):
    assert len({step.path for step in steps if step.verb != "Run"}) == 3


def test_what_learners_follow_from():
    es, ppo = {"start": "ppo", "hidden": None}, {"start": "bc", "hidden": None}
    config = {"es": es, "ppo": ppo, "bc": {}, "bcmax": {}, "marginal": {}}
    assert training_chain("es", config) == ["bc", "ppo", "es"]
    assert training_chain("es", config | {"ppo": {"start": "bc", "hidden": [16]}}) == ["ppo", "es"]
    assert training_chain("es", config | {"es": {"start": "ppo", "hidden": []}}) == ["es"]
    assert training_chain("bcmax", config) == ["bc", "bcmax"]
    assert training_chain("marginal", config) == ["marginal"]
    assert LEARNERS.names() == ["bc", "bcmax", "es", "marginal", "ppo", "sb3"]


@pytest.mark.slow
def test_a_learner_of_another_package_trains(finished, tmp_path, code):
    install(tmp_path, "search", code)
    command = finished.training("es", "outside")  # with the settings of a configuration that lacks its section
    command[command.index("es")] = "search"
    run = with_package(finished, tmp_path, *command)
    assert run.returncode == 0, run.stderr[-3000:]
    folder = finished.root / "data/outside/es-s0"
    policy = load_policy(folder)
    assert policy.origin["algorithm"] == "search"
    assert policy.origin["search"]["rounds"] == 3
    history = list(csv.DictReader((folder / "history.csv").open()))
    rewards = [float(record["validation_reward"]) for record in history]
    assert policy.origin["validation_reward"] == max(rewards)
    assert [int(record["evaluations"]) for record in history] == [4, 16, 28, 40]
    (tmp_path / "preset.yaml").write_text("train: {algorithms: [bc, search]}\n")
    workflow = with_package(finished, tmp_path, *finished.snakemake(str(tmp_path / "preset.yaml"), "--dry-run"))
    assert workflow.returncode == 0, workflow.stderr[-3000:]
    assert re.search(r"^train_search +1$", workflow.stdout + workflow.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("es", "other", "package other-learner registers learner 'es', which mlgo has already; give it another name"),
        ("search", "missing", "learner 'search' of package other-learner cannot be loaded from missing:LEARNER ("),
        ("found", "other", "other:LEARNER of package other-learner is no learner called 'found'"),
    ],
)
def test_a_bad_entry_point_is_one_line(tmp_path, code, name, module, message):
    install(tmp_path, name, code, module)
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{tmp_path}"}
    run = subprocess.run(
        [MLGO, "config", "show"], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    (line,) = run.stderr.strip().splitlines()
    assert line.startswith(f"error: {message}")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_runs_to_the_report(steps, tmp_path):
    checkout = Checkout(tmp_path)
    follow(steps, checkout)
    assert json.loads((checkout.root / "data/policies/search-s0/policy.json").read_text())["task"] == "inline-size"
    assert "search-s0" in json.loads((checkout.root / "data/report/comparisons.json").read_text())["test"]
