"""PPO and marginal costs with the real compiler: the number of workers and a kill change no byte."""

import csv
import signal
from pathlib import Path

import pytest

from mlgo.learn.cost import read_cost
from mlgo.policy.stored import load_policy
from tests.conftest import session_members
from tests.pipeline.conftest import Checkout, contents, last_logged, wait_for_state

LEARNERS = ["ppo", "marginal"]


def command(checkout: Checkout, learner: str, name: str, workers: int, trees: bool = True) -> list[str]:
    """A training on the trees of a fresh work folder, as the rule would start it."""
    return checkout.training(learner, name, "--workers", str(workers), replay={"enabled": trees})


def holds_tensorflow(process: int) -> bool:
    try:
        return "tensorflow" in Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)  # 15 and 45 seconds
def test_one_worker_undisturbed_as_two_killed_and_resumed(finished, learner):
    calm, killed = f"{learner}-calm", f"{learner}-killed"
    finished.succeed(*command(finished, learner, calm, 1))
    run = finished.start(*command(finished, learner, killed, 2), start_new_session=True)
    wait_for_state(run, finished.root / "data" / killed / "work")
    run.send_signal(signal.SIGSTOP)
    members = session_members(run.pid)
    learners = {process for process in members if holds_tensorflow(process)}
    run.kill()
    run.communicate()
    assert run.returncode == -signal.SIGKILL
    assert len(members) >= 3
    assert learners == {run.pid}  # no worker among them
    finished.succeed(*command(finished, learner, killed, 2))
    folders = [finished.root / "data" / name / f"{learner}-s0" for name in (calm, killed)]
    files = contents(folders[0])
    assert contents(folders[1]) == files
    assert set(files) == {"policy.json", "weights.npy", "history.csv", "failures.parquet"}
    work = finished.root / "data" / calm / "work"
    counted = read_cost(work, f"{learner}-s0").compiles
    assert last_logged(work / "tensorboard" / f"{learner}-s0", "compiles") == counted
    best = load_policy(folders[0]).origin["validation_reward"]
    history = list(csv.DictReader((folders[0] / "history.csv").open()))
    assert all(float(record["validation_reward"]) <= best for record in history)
    evaluations = [int(record["evaluations"]) for record in history]
    if learner == "ppo":
        # Four validation modules, then twice four modules with two episodes each and the validation again.
        assert evaluations == [4, 16, 28]
        assert all(float(record["entropy"]) > 0.0 for record in history[1:])
    else:
        # Four validation modules; at least four compiles of each training module in both rounds.
        assert evaluations[0] == 4
        assert evaluations[2] - evaluations[1] == evaluations[1] - evaluations[0] >= 4 + 4 * 12
        assert int(history[1]["equations"]) >= 24


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_log_counts_compiles_without_trees(finished, learner):
    finished.succeed(*command(finished, learner, f"{learner}-treeless", 2, trees=False))
    work = finished.root / "data" / f"{learner}-treeless" / "work"
    cost = read_cost(work, f"{learner}-s0")
    assert last_logged(work / "tensorboard" / f"{learner}-s0", "compiles") == cost.compiles == cost.evaluations > 0
