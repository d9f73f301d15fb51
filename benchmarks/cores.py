"""How many cores the jobs of a run use, and how much memory: its tree of processes, sampled from /proc.

Example:
    python -m benchmarks.cores snakemake --cores 1 --configfile config/presets/tiny.yaml
    python -m benchmarks.cores --json make tiny
"""

import argparse
import json
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.arguments import benchmark_parser, run_benchmark
from benchmarks.processes import descendants
from mlgo.errors import ConfigError

_INTERVAL_S = 0.05
_SLOW_S = 0.2
"""A sample that took longer is no moment any more: something else had the core. It is left out."""
_MEMORY_EVERY = 5
_WINDOW_S = 1.0
_LOG_VARIABLE = b"MLGO_LOG="


@dataclass(frozen=True)
class JobUse:
    """What the processes of one job used.

    Attributes:
        job: its log file without folder of the logs and suffix; ``total`` for the run, Snakemake itself included.
        seconds: from the first to the last sample in which it ran.
        cpu_s: seconds of processor time, those of ended processes included.
        cores: mean number of cores, ``cpu_s / seconds``.
        peak_cores: the most in any second; 0 for a job of less than a second.
        runnable: mean number of threads that ran or waited for a core. Other load on the machine does not lower it.
        peak_runnable: the highest mean in any second, likewise.
        peak_memory_mb: the most memory of all processes together, in 10^6 bytes; pages that several share count once.
    """

    job: str
    seconds: float
    cpu_s: float
    cores: float
    peak_cores: float
    runnable: float
    peak_runnable: float
    peak_memory_mb: float

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass
class _Samples:
    """What is known of a job so far."""

    first_s: float
    last_s: float
    cpu_s: float = 0.0
    unsure_cpu_s: float = 0.0
    runnable: int = 0
    count: int = 0
    peak_cores: float = 0.0
    peak_runnable: float = 0.0
    peak_memory: int = 0
    window: deque[tuple[float, float, int]] = field(default_factory=deque)

    def add(self, now: float, cpu_s: float, runnable: int) -> None:
        # A process that ends while /proc is read may count twice in this sample, or not at all; in the next it is right
        self.cpu_s = max(self.cpu_s, min(self.unsure_cpu_s, cpu_s))
        self.unsure_cpu_s = cpu_s
        self.last_s, self.runnable, self.count = now, self.runnable + runnable, self.count + 1
        self.window.append((now, self.cpu_s, runnable))
        while len(self.window) > 1 and now - self.window[1][0] >= _WINDOW_S:
            self.window.popleft()
        begin_s, begin_cpu_s, _ = self.window[0]
        if now - begin_s >= _WINDOW_S:
            self.peak_cores = max(self.peak_cores, (self.cpu_s - begin_cpu_s) / (now - begin_s))
            self.peak_runnable = max(self.peak_runnable, sum(one[2] for one in self.window) / len(self.window))

    def use(self, job: str) -> JobUse:
        seconds = max(self.last_s - self.first_s, _INTERVAL_S)
        return JobUse(
            job=job,
            seconds=round(seconds, 2),
            cpu_s=round(self.cpu_s, 2),
            cores=round(self.cpu_s / seconds, 2),
            peak_cores=round(self.peak_cores, 2),
            runnable=round(self.runnable / self.count, 2),
            peak_runnable=round(self.peak_runnable, 2),
            peak_memory_mb=round(self.peak_memory / 1e6, 1),
        )


def watch_cores(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[int, list[JobUse]]:
    """Run a command and watch its tree of processes until it ends.

    A job is a process with ``MLGO_LOG`` in its environment, as rules set it, and all that it starts.

    Args:
        command: for example ``snakemake --cores 1``.
        cwd: where it runs.
        env: its environment; None means this process's own.

    Returns:
        Its return code, and what each job used, in the order of their starts; the last one is ``total``.

    Raises:
        ConfigError: the command cannot be started.
    """
    samples: dict[str, _Samples] = {}
    jobs: dict[int, str] = {}
    try:
        process = subprocess.Popen(command, cwd=cwd, env=env)
    except OSError as error:
        raise ConfigError(f"cannot start {command[0]}: {error.strerror}") from error
    try:
        turn = 0
        while process.poll() is None:
            _sample(process.pid, samples, jobs, with_memory=turn % _MEMORY_EVERY == 0)
            turn += 1
            time.sleep(_INTERVAL_S)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    total = samples.pop("total", None)
    uses = [one.use(job) for job, one in samples.items()]
    return process.returncode, uses + ([total.use("total")] if total else [])


def _sample(root: int, samples: dict[str, _Samples], jobs: dict[int, str], *, with_memory: bool) -> None:
    now = time.monotonic()
    members = {"total": {one.number: one.cpu_s for one in descendants(root)}}
    for ended in jobs.keys() - members["total"].keys():  # its number may become another's
        del jobs[ended]
    for process in members["total"]:
        if process not in jobs and (job := _job_of(process)):
            jobs[process] = job
    for process in members["total"]:
        if process in jobs:
            members.setdefault(jobs[process], {})[process] = members["total"][process]
    runnable = {job: sum(map(_runnable, processes)) for job, processes in members.items()}
    if time.monotonic() - now > _SLOW_S:
        return
    for job, processes in members.items():
        known = samples.setdefault(job, _Samples(now, now))
        known.add(now, sum(processes.values()), runnable[job])
        if with_memory:
            known.peak_memory = max(known.peak_memory, sum(map(_memory, processes)))


def _job_of(process: int) -> str:
    """The job that a process belongs to, by its environment; empty if to none."""
    with suppress(OSError):
        for entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            if entry.startswith(_LOG_VARIABLE):
                log = entry.removeprefix(_LOG_VARIABLE).decode()
                return log.rpartition("/logs/")[2].removesuffix(".log")
    return ""


def _runnable(process: int) -> int:
    """Threads that run or wait for a core."""
    count = 0
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                count += (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    return count


def _memory(process: int) -> int:
    """Its share of memory, in bytes: a page that several processes use counts in parts."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    """Run a command, print a line for each of its jobs, and return its status."""
    parser = benchmark_parser(__name__, __doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="for example snakemake --cores 1")
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise ConfigError("benchmarks.cores needs a command to run, for example: snakemake --cores 1")
    status, uses = watch_cores(command)
    if args.json:
        print(json.dumps([one.record() for one in uses], indent=2))
        return status
    print(f"{'job':<36} {'seconds':>8} {'cores':>6} {'(peak)':>7} {'runnable':>9} {'(peak)':>7} {'memory MB':>10}")
    for one in uses:
        print(
            f"{one.job:<36} {one.seconds:>8.1f} {one.cores:>6.2f} {one.peak_cores:>7.2f} {one.runnable:>9.2f}"
            f" {one.peak_runnable:>7.2f} {one.peak_memory_mb:>10.0f}"
        )
    return status


if __name__ == "__main__":
    run_benchmark("benchmarks.cores")
