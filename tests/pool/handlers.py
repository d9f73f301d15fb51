"""Handlers for workers, which spawned processes import by name, and what pools of them give."""

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from mlgo.evaluate.worker import CompileWorkerSpec


def make_square():
    return lambda job: job * job


def make_misbehaving():
    """Jobs: a number to square, "die", "raise", "sleep", "exit", "pid", "huge", "unpicklable"."""

    def handle(job):
        if job == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == "exit":
            os._exit(7)
        if job == "raise":
            raise LookupError("from the handler")
        if job == "sleep":
            time.sleep(60)
        if job == "slow":
            time.sleep(0.3)
            return "slow"
        if job == "pid":
            return os.getpid()
        if job == "slow pid":
            time.sleep(0.02)
            return os.getpid()
        if job == "unpicklable":
            return lambda: None
        if job == "huge":
            return b"x" * 5_000_000
        if job == "affinity":
            return sorted(os.sched_getaffinity(0))
        if job == "spawn":
            from mlgo.host.process import Child

            Child(["sleep", "126.5"]).finish(100.0)
        if job == "scratch":
            from mlgo.base.scratch import scratch_directory

            with scratch_directory() as folder:
                return str(folder)
        return job * job

    return handle


def make_holder(toolchain, settings):
    """What a compile worker holds: its resident memory in 10^6 bytes, and modules that it should not have."""
    return partial(_holder, toolchain, settings)


def _holder(toolchain, settings):
    CompileWorkerSpec(toolchain, "inline-size", settings)()

    def look(job):
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return resident / 1e6, sorted({"tensorflow", "keras", "pyarrow"} & set(sys.modules))

    return look


def make_failing():
    raise OSError("no such thing here")


def make_dying_once(folder):
    """Every job kills the first worker that does it."""
    return partial(_dying_once, folder)


def _dying_once(folder):
    def handle(job):
        note = Path(folder, str(job))
        if not note.exists():
            note.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return job

    return handle


class _Cancellable:
    def __init__(self):
        self._cancelled = threading.Event()

    def __call__(self, job):
        """How a job that waits so many seconds for its end has ended."""
        ended = self._cancelled.wait(job)
        self._cancelled.clear()
        return "cancelled" if ended else "done"

    def cancel(self):
        self._cancelled.set()


def make_cancellable():
    return _Cancellable()


def make_reader():
    """Jobs: paths of files to read."""
    return lambda path: Path(path).read_text() if Path(path).is_file() else "missing"


def make_logging(path, name):
    """Each job notes its beginning and end in a file, and takes so many seconds, or until a file is there."""
    return partial(_log, Path(path), name)


def _log(path, name, job):
    number, lasts = job
    for what in ("begins", "ends"):
        with path.open("a") as file:
            file.write(f"{name}{number} {what}\n")
        if what == "begins" and isinstance(lasts, str):
            while not Path(lasts).exists():
                time.sleep(0.01)
        elif what == "begins":
            time.sleep(lasts)
    return number


def log_lines(path):
    return Path(path).read_text().split("\n")[:-1] if Path(path).exists() else []


def collect(pool, jobs):
    """Results in the order of the jobs, each of which has one."""
    results = dict(pool.map(jobs))
    assert sorted(results) == list(range(len(jobs)))
    return [results[i] for i in range(len(jobs))]
