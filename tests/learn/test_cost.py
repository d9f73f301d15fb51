"""What a training cost: sessions add up, and what is not known is said."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from mlgo.errors import ArtifactError
from mlgo.learn.cost import TrainingCost, cost_path, read_cost, recorded_cost


@dataclass
class Counts:
    num_asked: int = 0
    num_compiled: int = 0


def session(work, run, asked, compiled, resumed=False, ago=10.0, error=None):
    """A training that began some seconds ago; returns what its file says."""
    counts = Counts()
    try:
        with recorded_cost(work, "es-s0", TrainingCost(run, 2), counts, resumed, time.monotonic() - ago):
            counts.num_asked, counts.num_compiled = asked, compiled
            if error:
                raise error
    except SystemExit:
        pass
    return read_cost(work, "es-s0")


def figures(cost):
    return cost.sessions, round(cost.seconds), cost.evaluations, cost.compiles, cost.complete


def test_sessions_of_a_run_add_up(tmp_path):
    cost = session(tmp_path, "a", 30, 20, error=SystemExit(143))
    assert (cost.run, cost.workers) == ("a", 2)
    assert figures(cost) == (1, 10, 30, 20, True)
    assert cost_path(tmp_path, "es-s0") == tmp_path / "timings/training/es-s0.json"
    assert figures(session(tmp_path, "a", 5, 1, resumed=True, ago=3.0)) == (2, 13, 35, 21, True)
    for _ in range(2):  # another run starts anew, and so does the same from its beginning
        assert figures(session(tmp_path, "b", 7, 7)) == (1, 10, 7, 7, True)


def test_a_learner_without_compiles(tmp_path):
    with recorded_cost(tmp_path, "bc-s0", TrainingCost("a", 1)):
        assert not read_cost(tmp_path, "bc-s0").complete  # while it is at work
    cost = read_cost(tmp_path, "bc-s0")
    assert figures(cost) == (1, 0, 0, 0, True)
    assert cost.seconds < 1.0


@pytest.mark.parametrize("earlier", [None, "b"])
def test_resumed_without_a_file_of_this_run_is_incomplete(tmp_path, earlier):
    if earlier:
        session(tmp_path, earlier, 30, 20)
    assert figures(session(tmp_path, "a", 5, 1, resumed=True)) == (1, 10, 5, 1, False)


def test_killed_without_notice_is_incomplete_for_ever(tmp_path):
    session(tmp_path, "a", 30, 20, error=SystemExit(143))
    program = f"""
import os, signal
from pathlib import Path
from mlgo.learn.cost import TrainingCost, recorded_cost
with recorded_cost(Path({str(tmp_path)!r}), "es-s0", TrainingCost("a", 1), resumed=True):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert figures(session(tmp_path, "a", 5, 1, resumed=True)) == (3, 20, 35, 21, False)
    assert not session(tmp_path, "a", 5, 1, resumed=True).complete


def test_a_file_of_another_kind_is_named(tmp_path):
    path = cost_path(tmp_path, "es-s0")
    path.parent.mkdir(parents=True)
    path.write_text('{"run": "a", "workers": 1, "hours": 2}')
    with pytest.raises(ArtifactError, match=r"es-s0\.json is not the cost of a training .*hours"):
        read_cost(tmp_path, "es-s0")
    assert TrainingCost("a", 1).complete
