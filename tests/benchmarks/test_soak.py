"""Many sessions in one process, and whether the count of what they leave can be trusted."""

import os
import subprocess
import threading

import pytest

from benchmarks import soak
from benchmarks.soak import KINDS, bench_soak
from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompilerExit
from mlgo.host.session import compile_plain

SOURCES = ("calc/parse.c", "codec/base64.c", "lz/match.c")
"""The sources of data/sample that compile fastest and still ask something."""


def leaks(result):
    return result.leaked_processes, result.leaked_descriptors, result.leaked_files, result.leaked_threads


@pytest.mark.slow
def test_a_hundred_sessions_leave_nothing(sample, toolchain, task, settings, leaves_nothing):
    modules = [sample(source) for source in SOURCES]
    with leaves_nothing():
        result = bench_soak(toolchain, task, settings, modules, 120)
    assert result.sessions == 120
    assert result.failures == {"exit": 20, "policy": 20, "timeout": 20}
    assert leaks(result) == (0, 0, 0, 0)
    assert not result.leaked
    assert result.resident_mb_end < result.resident_mb_start + 5
    assert result.sessions_per_second > 0


def test_what_stays_behind_is_counted(sample, toolchain, task, settings, monkeypatch):
    """Every plain compile loses a process, two descriptors, a file in a folder, and a thread."""
    lost, end = [], threading.Event()

    def careless(*arguments):
        thread = threading.Thread(target=end.wait)
        thread.start()
        scratch = scratch_directory()
        (scratch.__enter__() / "file").touch()
        lost.append((subprocess.Popen(["sleep", "100"]), os.pipe(), thread, scratch))
        return compile_plain(*arguments)

    monkeypatch.setattr(soak, "compile_plain", careless)
    try:
        result = bench_soak(toolchain, task, settings, [sample(SOURCES[0])], 2 * len(KINDS))
    finally:
        end.set()
        for process, pipe, thread, scratch in lost:
            process.kill()
            process.wait()
            thread.join()
            scratch.__exit__(None, None, None)
            for descriptor in pipe:
                os.close(descriptor)
    assert (result.leaked_processes, result.leaked_descriptors, result.leaked_files, result.leaked_threads) == (
        2,
        4,
        4,
        2,
    )
    assert result.leaked


def test_a_module_that_does_not_compile_is_named_at_once(sample, toolchain, task, settings, tmp_path):
    broken = tmp_path / "broken.bc"
    broken.write_bytes(sample(SOURCES[0]).read_bytes()[:1000])
    with pytest.raises(CompilerExit):
        bench_soak(toolchain, task, settings, [broken], 1)
