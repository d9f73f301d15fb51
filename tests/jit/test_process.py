"""What reaches SuperPMI from outside, and what a fork has of a client."""

import os
import time

import pytest

from mlgo.errors import MetricsError
from mlgo.jit.outcome import MethodMetrics
from mlgo.jit.process import LineProcess
from tests.jit.conftest import GOLDEN


def soon() -> float:
    return time.monotonic() + 10.0


def test_options_of_the_jit_in_the_environment_have_no_effect(double, monkeypatch):
    monkeypatch.setenv("DOTNET_JitRLHook", "1")
    monkeypatch.setenv("COMPlus_JitRLHook", "1")
    target = double()
    with target.client() as client, target.batch(no_cse=False) as run:
        assert client.compile(1, None).heuristic == next(run).heuristic == "Standard CSE Heuristic"


def test_given_options_win_over_recorded_ones(double):
    target = double([{**GOLDEN["methods"][0], "recorded": {"JitOther": "0", "JitRLHook": "1", "JitMetrics": "0"}}])
    with target.client(jit_options={"JitOther": "1"}) as client:
        assert isinstance(client.compile(1, ()), MethodMetrics)
    with target.batch(no_cse=True, jit_options={"JitOther": "1"}) as run:
        assert [metrics.num_candidates for metrics in run] == [2]


def test_a_fork_does_not_end_its_parents_process(double):
    with double().client() as client:
        before = client.compile(1, ())
        fork = os.fork()
        if fork == 0:
            client.__dict__.clear()  # its process is collected here
            os._exit(0)
        assert os.waitpid(fork, 0) == (fork, 0)
        assert client.compile(1, ()) == before
        assert client.num_starts == 1


def test_lines(leaves_nothing):
    with leaves_nothing():
        process = LineProcess(["sh", "-c", "printf 'one\\r\\n\\ntwo\\377\\nhalf'; exit 3"])
        assert [process.read_line(soon()) for _ in range(3)] == ["one", "", "two\ufffd"]
        assert process.read_line(soon()) is None
        assert (process.returncode, process.end(), process.returncode) == (None, 3, 3)
        assert (process.stop(), process.kill()) == (3, 3)
        process.send("nobody is there")


def test_lines_of_a_process_whose_child_keeps_the_pipe(leaves_nothing):
    with leaves_nothing():
        process = LineProcess(["sh", "-c", "echo one; sleep 128.25 & exit 0"])
        assert process.read_line(soon()) == "one"
        assert process.read_line(soon()) is None
        assert process.end() == 0


def test_a_line_without_end_is_refused(leaves_nothing):
    with leaves_nothing():
        process = LineProcess(["sh", "-c", "yes | tr -d '\\n'"])
        with pytest.raises(MetricsError, match="bytes"):
            process.read_line(soon())
        assert process.kill() < 0


@pytest.mark.parametrize(("script", "status"), [("read x; exit 5", 5), ("exec sleep 129", -15)])
def test_how_it_is_stopped(script, status, leaves_nothing, monkeypatch):
    monkeypatch.setattr("mlgo.jit.process._GRACE_S", 0.3)
    with leaves_nothing():
        assert LineProcess(["sh", "-c", script]).stop() == status
        ignoring = LineProcess(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
        assert ignoring.read_line(soon()) == "ready"
        assert ignoring.stop() == -9
