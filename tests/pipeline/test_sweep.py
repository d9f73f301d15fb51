"""Sweeps end to end: inside one run of Snakemake, and as DVC's experiments that share their response trees."""

import hashlib
import json
import os
import re
import shutil
import signal
import time

import pytest
import yaml

from mlgo.learn.cost import read_cost, read_experiments
from tests.conftest import wait_for
from tests.pipeline.conftest import Checkout, WorkingCopy, copy_of

pytestmark = pytest.mark.timeout(1600)  # several trainings
SWEEP = {
    "sweep": {"learners": ["bc", "es"], "points": {"es.step_size": [0.05, 0.1, 1e300]}},
    "evaluate": {"splits": ["test"]},
}
POINTS = ["bc,base", "es,es.step_size=0.05", "es,es.step_size=0.1", "es,es.step_size=1e+300"]


def snakemake(checkout: WorkingCopy, *options: str) -> list[str]:
    return checkout.snakemake("sweep.yaml", *options, "--", "sweep")


def hashes(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def untrained(finished, folder) -> WorkingCopy:
    """A copy with the finished tiny run, without its response trees and checkpoints."""
    checkout = copy_of(finished, folder)
    for name in ("replay", "checkpoints"):
        shutil.rmtree(checkout.root / "data/work" / name)
    return checkout


@pytest.fixture(scope="module")
def swept(finished, tmp_path_factory) -> WorkingCopy:
    checkout = untrained(finished, tmp_path_factory.mktemp("sweep"))
    (checkout.root / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    checkout.succeed(*snakemake(checkout), timeout=800)
    return checkout


def test_corpus_and_baseline_of_the_default_run_are_used(finished, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    jobs = finished.jobs(*finished.snakemake(str(path), "--dry-run", "--", "sweep"))
    assert jobs == {"train_point": "4", "evaluate_point": "4", "report_sweep": "1", "sweep": "1", "total": "10"}


def test_another_level_has_a_corpus_and_a_baseline_of_its_own(finished, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"sweep": {"points": {"compile.optimization": ["-Oz", "-Os"]}}}))
    jobs = finished.jobs(*finished.snakemake(str(path), "--dry-run", "--", "sweep"))
    assert (jobs["build_project"], jobs["score_project"], jobs["merge_baseline"]) == ("8", "8", "1")
    assert (jobs["train_point"], jobs["evaluate_point"]) == ("4", "2")


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"es.stepsize": [0.1]}, "unknown setting 'es.stepsize'"),
        pytest.param(
            {"es.step_size": [-0.1]},
            "sweep point es.step_size=-0.1: es.step_size: input should be greater than 0",
            marks=pytest.mark.slow,
        ),
        pytest.param({}, "the sweep holds one training, so there is nothing to compare", marks=pytest.mark.slow),
    ],
)
def test_a_sweep_that_cannot_be_made_is_one_clear_message(finished, tmp_path, points, message):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"sweep": {"points": points}}))
    run = finished.run(*finished.snakemake(str(path), "--dry-run", "--", "sweep"))
    assert run.returncode != 0
    assert message in run.stdout + run.stderr  # Snakemake adds which rule asked
    usual = finished.run(*finished.snakemake(str(path), "--dry-run"))
    assert usual.returncode == 0, usual.stderr  # other targets do not mind


@pytest.mark.slow
def test_every_point_is_there_and_the_one_that_failed_is_told(swept):
    record = json.loads((swept.root / "data/sweep/sweep.json").read_text())
    assert [one["name"] for one in record["points"]] == POINTS
    assert [bool(one["failures"]) for one in record["points"]] == [False, False, False, True]
    for one in record["points"][:3]:
        assert (one["test"]["modules"], one["validation"]["modules"]) == (6, 6)
    page = (swept.root / "data/sweep/sweep.html").read_text()
    assert "the mean policy has left the range of numbers; lower es.step_size" in page[page.index("<main>") :]
    run = swept.succeed("mlgo", "report", "sweep")
    assert "es,es.step_size=1e+300-s0 failed: the mean policy has left the range" in run.stdout
    assert swept.processes() == []


@pytest.mark.slow
def test_a_second_run_has_nothing_to_do_and_a_forced_one_gives_the_same_bytes(swept):
    assert swept.is_done(*snakemake(swept))
    before = hashes(swept.root / "data/sweep")
    swept.succeed(*snakemake(swept, "--forcerun", "train_point"), timeout=800)
    assert hashes(swept.root / "data/sweep") == before


@pytest.mark.slow
def test_points_are_what_runs_of_their_own_are_and_cost_less(swept, finished, tmp_path):
    together, alone = 0, 0
    for name in ("es,es.step_size=0.05", "es,es.step_size=0.1"):
        lone = untrained(finished, tmp_path / name)
        preset = str(swept.root / f"data/sweep/points/{name}.yaml")
        command = ["snakemake", "--workflow-profile", "workflow/profiles/default", "--cores", "2"]
        lone.succeed(*command, "--configfile", preset, "--", "data/policies/es-s0/weights.npy", timeout=600)
        for file in ("weights.npy", "policy.json", "history.csv", "failures.parquet"):
            one, other = lone.root / "data/policies/es-s0", swept.root / f"data/sweep/policies/{name}-s0"
            assert (one / file).read_bytes() == (other / file).read_bytes()
        together += read_cost(swept.root / "data/work", f"{name}-s0").compiles
        alone += read_cost(lone.root / "data/work", "es-s0").compiles
    assert together < alone


def kill_at_batch(checkout: WorkingCopy, batch: int) -> None:
    """Run the sweep and kill all of it as soon as a batch is chosen: its trials are under way or not begun."""
    process = checkout.start(*snakemake(checkout), start_new_session=True)
    wait_for(lambda: list((checkout.root / "data/sweep").glob(f"study/*/batch-{batch}.json")), 400)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: checkout.processes() == [], 60)
    checkout.succeed("snakemake", "--unlock")


@pytest.mark.slow
def test_a_study_that_was_killed_is_the_one_that_was_not(finished, tmp_path):
    pytest.importorskip("optuna", reason="Optuna is not installed: make setup EXTRA=optuna")
    study = {
        "es": {"generations": 3, "validate_every": 1},
        "sweep": {
            "sampler": "tpe",
            "ranges": {"es.step_size": {"low": 0.02, "high": 0.8, "log": True}, "es.pairs": {"low": 2, "high": 3}},
            **{"trials": 6, "random_trials": 3, "parallel": 2},
            "pruning": {"percentile": 90.0, "startup_trials": 2, "warmup_steps": 1},
        },
    }
    found = []
    for name, killed_at in (("calm", []), ("killed", [1, 2])):
        checkout = untrained(finished, tmp_path / name)
        (checkout.root / "sweep.yaml").write_text(yaml.safe_dump(study))
        folder = checkout.root / "data/sweep"
        for batch in killed_at:
            kill_at_batch(checkout, batch)
        checkout.succeed(*snakemake(checkout), timeout=800)
        found.append(hashes(folder))
        assert checkout.is_done(*snakemake(checkout))
    assert found[0] == found[1]
    trials = json.loads((folder / "sweep.json").read_text())["study"]["trials"]
    assert len(trials) == 6
    assert any(one["state"] == "pruned" and "pruned after step" in one["why"] for one in trials)
    assert all("test" not in one for one in json.loads((folder / "sweep.json").read_text())["points"])


def wait_for_queue(checkout: Checkout, count: int, seconds: float) -> str:
    """Status of DVC's queue, once so many experiments have ended."""
    deadline = time.monotonic() + seconds
    while True:
        status = checkout.run("dvc", "queue", "status").stdout
        if len(re.findall("Success|Failed", status)) == count:
            return status
        assert time.monotonic() < deadline, status
        time.sleep(2)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_experiments_of_dvc_share_their_trees_and_give_the_results_of_lone_ones(tmp_path):
    checkout = Checkout(tmp_path / "main")
    checkout.succeed("mlgo", "config", "use", "tiny")
    path = checkout.root / "config/config.yaml"
    config = yaml.safe_load(path.read_text())
    config["train"]["algorithms"] = ["bc", "es"]
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    checkout.commit()
    checkout.succeed("dvc", "repro", "baseline", timeout=600)

    sizes = {}
    for size in ("0.05", "0.3"):
        queued = checkout.run("dvc", "exp", "run", "--queue", "-S", f"config/config.yaml:es.step_size={size}")
        (name,) = re.findall(r"Queued experiment '([\w-]+)'", queued.stdout + queued.stderr)
        sizes[name] = size
    loop = checkout.root / "mlgo/learn/es/loop.py"
    code = loop.read_text()
    loop.write_text("raise RuntimeError('edited after the experiments were queued')\n")
    checkout.environment["MLGO_CORES"] = "1"
    try:
        checkout.succeed("dvc", "queue", "start", "-j", "2")
        status = wait_for_queue(checkout, 2, 1200)
    finally:
        checkout.run("dvc", "queue", "stop", "--kill")
        loop.write_text(code)
    for name in sizes:
        logs = checkout.run("dvc", "queue", "logs", name).stdout
        assert status.count("Success") == 2, logs[-3000:]
        assert "Running stage 'train'" in logs
        assert "Running stage 'corpus'" not in logs
        assert "Running stage 'baseline'" not in logs
    shared = {name: one["es-s0"].compiles for name, one in read_experiments(checkout.root / "data/work").items()}
    assert shared.keys() == sizes.keys()
    assert not (checkout.root / "data/work/timings/training").exists()  # what is named by policy was not shared

    alone = {}
    for name, size in sizes.items():
        lone = Checkout(tmp_path / f"alone-{size}")
        for folder in ("corpus", "baseline"):
            shutil.copytree(checkout.root / "data" / folder, lone.root / "data" / folder)
        config["es"]["step_size"] = float(size)
        (lone.root / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        command = ["snakemake", "--workflow-profile", "workflow/profiles/default", "-s", "workflow/rules/train.smk"]
        lone.succeed(*command, "--cores", "2", timeout=600)
        alone[name] = read_cost(lone.root / "data/work", "es-s0").compiles
        checkout.succeed("dvc", "exp", "apply", name)
        assert hashes(checkout.root / "data/policies") == hashes(lone.root / "data/policies")
    assert all(shared[name] <= alone[name] for name in sizes)
    assert sum(shared.values()) < sum(alone.values())
