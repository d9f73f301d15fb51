"""Kills from outside in the middle of real compiles: one job lost at most, and nothing left running or lying about."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mlgo.base.config import LOCAL_WORKERS
from mlgo.base.scratch import sweep_abandoned
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import EchoAdvisor
from tests.conftest import REPOSITORY, children, lasting_children, processes_naming, session_members, wait_for

SOURCE = "graph/paths.cpp"
ECHO = EchoAdvisor("inlining_default")
ONE_ATTEMPT = LOCAL_WORKERS.model_copy(update={"retries": 0})
WITHIN_S = 30.0
"""When all must be over; on an idle machine it takes a fraction of a second."""

HOST = """
import sys
from pathlib import Path
from mlgo.cli.program import run_program
from mlgo.host.toolchain import find_toolchain
from mlgo.base.config import load_config
from mlgo.host.tasks.task import EchoAdvisor
from mlgo.evaluate import CompileHost, CompileJob

def main():
    job = CompileJob("m", Path(sys.argv[1]), EchoAdvisor("inlining_default"), with_heuristic_feature=True)
    settings = load_config(Path(sys.argv[2])).compile
    with CompileHost(find_toolchain("auto", "x86_64-linux-gnu"), "inline-size", settings, 2) as host:
        host.compile_all([job] * 100_000)

if __name__ == "__main__":
    run_program(main)
"""


@dataclass(frozen=True)
class Dawdling:
    """An echo that takes its time and says in a file where it is asked."""

    note: Path

    def respond_to(self, header):
        echo = ECHO.respond_to(header)
        self.note.write_text(str(os.getpid()))

        def respond(payload):
            time.sleep(0.5)
            return echo(payload)

        return respond


def scratch_folders(temporary: Path) -> list[str]:
    return sorted(path.name for path in (temporary / f"mlgo-{os.getuid()}").iterdir() if path.is_dir())


def test_a_worker_killed_in_the_middle_of_a_compile_loses_that_job_alone(
    sample, toolchain, task, settings, tmp_path, leaves_nothing
):
    module, victim = sample(SOURCE), tmp_path / "victim.bc"
    victim.write_bytes(module.read_bytes())
    note = tmp_path / "note"
    plain, echo = CompileJob("plain", module, None), CompileJob("echo", module, ECHO, with_heuristic_feature=True)
    lost = CompileJob("victim", victim, Dawdling(note), with_heuristic_feature=True)
    jobs = [plain, echo, lost, echo, plain, echo, plain]
    echoed = compile_under_advice(toolchain, task, module, ECHO, settings, with_heuristic_feature=True)
    expected = {"plain": compile_plain(toolchain, module, settings).object_sha256, "echo": echoed.object_sha256}
    killed, workers, others = [], [], lasting_children()

    def kill_the_worker():
        wait_for(lambda: note.exists() and note.read_text() and processes_naming(str(victim)))
        worker = int(note.read_text())
        workers.extend(children() - others)
        assert worker in workers
        os.kill(worker, signal.SIGKILL)
        killed.append(worker)

    killer = threading.Thread(target=kill_the_worker)
    with (
        leaves_nothing(descriptors=False),
        CompileHost(toolchain, "inline-size", settings, 2, workers=ONE_ATTEMPT) as host,
    ):
        killer.start()
        outcomes = host.compile_all(jobs)
        killer.join()
        wait_for(lambda: not processes_naming(str(victim)))  # its compiler goes with it, not with the host
    assert len(killed) == 1
    lost = outcomes.pop(2)
    jobs.pop(2)
    assert (lost.result, lost.failure, lost.message) == (None, "worker", "its worker died with exit code -9")
    assert np.isnan(lost.score("text_bytes"))
    assert [one.result.object_sha256 for one in outcomes] == [expected[job.module] for job in jobs]
    assert not processes_naming(str(module))
    left = scratch_folders(Path(tempfile.gettempdir()))  # with those of other processes of this machine
    assert not [folder for folder in left if int(folder.split("-")[0]) in workers]


@pytest.fixture
def host(sample, tmp_path):
    """A program in the middle of many compiles, with a folder for temporary files of its own."""
    module, script, temporary = tmp_path / "module.bc", tmp_path / "host.py", tmp_path / "tmp"
    module.write_bytes(sample(SOURCE).read_bytes())
    script.write_text(HOST)
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, script, module, REPOSITORY / "config" / "config.yaml"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_for(lambda: processes_naming(f"ir\0{module}"))
            time.sleep(0.2)  # the second worker as well
            assert len(scratch_folders(temporary)) >= 1
            yield process
        finally:
            for pid in session_members(process.pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("send", "number", "status", "says"),
    [
        (os.kill, signal.SIGINT, 130, "interrupted\n"),
        (os.killpg, signal.SIGINT, 130, "interrupted\n"),  # as a terminal does
        (os.kill, signal.SIGTERM, 143, ""),
    ],
)
def test_an_interrupted_host_leaves_nothing(host, tmp_path, send, number, status, says):
    send(host.pid, number)
    _, said = host.communicate(timeout=WITHIN_S)
    assert (host.returncode, said) == (status, says)
    wait_for(lambda: not session_members(host.pid))
    assert scratch_folders(tmp_path / "tmp") == []


def test_workers_and_compilers_of_a_killed_host_die_and_the_next_process_sweeps(host, tmp_path, monkeypatch):
    # Itself, a worker, a compiler, whose folder is there; between two compiles there is none.
    wait_for(lambda: len(session_members(host.pid)) >= 3 and scratch_folders(tmp_path / "tmp"))
    host.kill()
    host.wait()
    wait_for(lambda: not session_members(host.pid))
    left = scratch_folders(tmp_path / "tmp")
    assert left != []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    swept = []
    # A process is a zombie once its first thread is; while another one ends, it holds its lock.
    wait_for(lambda: swept.append(sweep_abandoned()) or sum(swept) == len(left))
    assert scratch_folders(tmp_path / "tmp") == []
