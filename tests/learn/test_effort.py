"""What a training cost: sessions add up, and what is not known is said."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from mlgo.core.errors import ArtifactError
from mlgo.learn.effort import Effort, effort_path, read_effort, recorded_effort


@dataclass
class Counts:
    num_asked: int = 0
    num_compiled: int = 0


def session(work, run, asked, compiled, resumed=False, ago=10.0, error=None):
    """A training that began some seconds ago; returns what its file says."""
    counts = Counts()
    try:
        with recorded_effort(work, "es-s0", run, 2, counts, resumed, time.monotonic() - ago):
            counts.num_asked, counts.num_compiled = asked, compiled
            if error:
                raise error
    except SystemExit:
        pass
    return read_effort(work, "es-s0")


def figures(effort):
    return effort.sessions, round(effort.seconds), effort.evaluations, effort.compiles, effort.complete


def test_one_session(tmp_path):
    effort = session(tmp_path, "a", 30, 20)
    assert (effort.run, effort.workers) == ("a", 2)
    assert figures(effort) == (1, 10, 30, 20, True)
    assert effort_path(tmp_path, "es-s0") == tmp_path / "timings/training/es-s0.json"


def test_a_learner_without_compiles(tmp_path):
    with recorded_effort(tmp_path, "bc-s0", "a"):
        assert not read_effort(tmp_path, "bc-s0").complete  # while it is at work
    effort = read_effort(tmp_path, "bc-s0")
    assert figures(effort) == (1, 0, 0, 0, True)
    assert effort.seconds < 1.0


def test_a_stopped_run_adds_up(tmp_path):
    session(tmp_path, "a", 30, 20, error=SystemExit(143))
    assert figures(session(tmp_path, "a", 5, 1, resumed=True, ago=3.0)) == (2, 13, 35, 21, True)


def test_another_run_starts_anew(tmp_path):
    session(tmp_path, "a", 30, 20)
    assert figures(session(tmp_path, "b", 7, 7)) == (1, 10, 7, 7, True)
    assert figures(session(tmp_path, "b", 7, 7)) == (1, 10, 7, 7, True)  # the same run, from its beginning


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
from mlgo.learn.effort import recorded_effort
with recorded_effort(Path({str(tmp_path)!r}), "es-s0", "a", resumed=True):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert figures(session(tmp_path, "a", 5, 1, resumed=True)) == (3, 20, 35, 21, False)
    assert not session(tmp_path, "a", 5, 1, resumed=True).complete


def test_a_file_of_another_kind_is_named(tmp_path):
    path = effort_path(tmp_path, "es-s0")
    path.parent.mkdir(parents=True)
    path.write_text('{"run": "a", "workers": 1, "hours": 2}')
    with pytest.raises(ArtifactError, match=r"es-s0\.json is not the effort of a training .*hours"):
        read_effort(tmp_path, "es-s0")
    assert Effort("a", 1).complete
