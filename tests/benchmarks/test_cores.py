"""Cores and memory of jobs, counted on processes whose use is known."""

import os
import subprocess
import sys

import pytest

from benchmarks.cores import watch_cores
from mlgo.errors import ConfigError
from tests.conftest import REPOSITORY

SPIN = "import time; end = time.monotonic() + 2.5\nwhile time.monotonic() < end: pass"


def in_job(job: str) -> dict[str, str]:
    return {**os.environ, "MLGO_LOG": f"data/work/logs/{job}.log"}


def test_a_job_that_computes_in_one_thread_has_one_runnable():
    status, (job, total) = watch_cores([sys.executable, "-c", SPIN], env=in_job("train/s0"))
    assert (status, job.job, total.job) == (0, "train/s0", "total")
    assert 0.9 <= job.runnable <= 1.1  # also where other load takes most of the processor time
    assert 0.0 < job.cores <= 1.05
    assert 2.0 <= job.seconds <= 60.0


def test_processes_of_a_job_count_together():
    program = f"""
import subprocess, sys
for run in [subprocess.Popen([sys.executable, "-c", {SPIN!r}]) for _ in "12"]:
    run.wait()
"""
    _, (job, _) = watch_cores([sys.executable, "-c", program], env=in_job("two"))
    assert 1.6 <= job.runnable <= 2.2
    assert job.peak_runnable >= job.runnable - 0.1


def test_ended_processes_keep_their_share():
    burn = "import os\nwhile sum(os.times()[:2]) < 0.5: pass"  # in ticks of the clock, as /proc counts
    program = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {burn!r}])\ntime.sleep(0.5)"
    _, (job, total) = watch_cores([sys.executable, "-c", program], env=in_job("children"))
    assert 0.5 <= job.cpu_s <= 1.0  # two interpreters start, too
    assert total.cpu_s >= job.cpu_s


def test_memory_of_a_job_is_that_of_all_its_processes():
    program = "import time; data = bytearray(range(256)) * (400_000_000 // 256); time.sleep(2)"
    _, (job, _) = watch_cores([sys.executable, "-c", program], env=in_job("large"))
    assert 400 <= job.peak_memory_mb <= 440


def test_status_is_the_commands(leaves_nothing):
    with leaves_nothing():
        assert watch_cores(["sh", "-c", "sleep 0.3; exit 3"])[0] == 3
    with pytest.raises(ConfigError, match="cannot start no-such-program"):
        watch_cores(["no-such-program"])


def test_the_command_prints_a_line_per_job():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.cores", "sh", "-c", "sleep 1; exit 4"],
        cwd=REPOSITORY,
        env=in_job("build/lz"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 4
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["job", "build/lz", "total"]
