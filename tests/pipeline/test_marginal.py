"""Marginal costs with the real compiler: the number of workers and a kill change no byte."""

import csv
import signal
import sys
import time
from pathlib import Path

from mlgo.config import load_config
from mlgo.policy.network_policy import load_policy
from tests.conftest import session_members
from tests.pipeline.conftest import Checkout


def command(checkout: Checkout, name: str, workers: int) -> list[str]:
    """Marginal costs on the trees of a fresh work folder, as the rule would start it."""
    config = load_config(checkout.root / "config/config.yaml", checkout.root / "config/presets/tiny.yaml")
    sections = {"marginal": config.marginal, "bc": config.bc, "replay": config.replay, "compile": config.compile}
    settings = [part for key, section in sections.items() for part in (f"--{key}", section.model_dump_json())]
    compiler = ["--toolchain", config.toolchain, "--target", config.target, "--workers", str(workers)]
    data = ["--task", config.task, "--corpus", "data/corpus", "--baseline", "data/baseline"]
    own = ["--work", f"data/{name}/work", "--output", f"data/{name}/marginal-s0"]
    return [sys.executable, "scripts/train_marginal.py", "--seed", "0", *settings, *compiler, *data, *own]


def result(checkout: Checkout, name: str) -> dict[str, bytes]:
    folder = checkout.root / "data" / name / "marginal-s0"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def holds_tensorflow(process: int) -> bool:
    try:
        return "tensorflow" in Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return False


def test_one_worker_undisturbed_as_two_killed_and_resumed(finished):
    calm = finished.run(*command(finished, "marginal-calm", 1))
    assert calm.returncode == 0, calm.stderr[-3000:]
    run = finished.start(*command(finished, "marginal-killed", 2), start_new_session=True)
    checkpoints = finished.root / "data/marginal-killed/work/checkpoints"
    end = time.monotonic() + 100
    while not list(checkpoints.glob("[!.]*.npz")):
        assert run.poll() is None, run.communicate()[0][-3000:]
        assert time.monotonic() < end
        time.sleep(0.005)
    run.send_signal(signal.SIGSTOP)
    members = session_members(run.pid)
    learners = {process for process in members if holds_tensorflow(process)}
    run.kill()
    run.communicate()
    assert run.returncode == -signal.SIGKILL
    assert len(members) >= 3
    assert learners == {run.pid}  # no worker among them
    resumed = finished.run(*command(finished, "marginal-killed", 2))
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert result(finished, "marginal-killed") == result(finished, "marginal-calm")

    folder = finished.root / "data/marginal-calm/marginal-s0"
    assert {path.name for path in folder.iterdir()} == {"policy.json", "weights.npy", "history.csv", "failures.parquet"}
    origin = load_policy(folder).origin
    history = list(csv.DictReader((folder / "history.csv").open()))
    assert [int(record["round"]) for record in history] == [0, 1, 2]
    assert all(float(record["validation_reward"]) <= origin["validation_reward"] for record in history)
    # Two compiles of each module, at least, that differ.
    assert int(history[1]["equations"]) >= 24
