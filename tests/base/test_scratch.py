"""Temporary folders that outlive nothing."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mlgo.base.scratch import scratch_directory, sweep_abandoned

HOLD = """
import sys, time
from mlgo.base.scratch import scratch_directory
with scratch_directory() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    {end}
"""


def start(end: str) -> tuple[subprocess.Popen, Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLD.format(end=end)], stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def test_fresh_empty_and_private():
    with scratch_directory() as one, scratch_directory() as two:
        assert one != two
        assert list(one.iterdir()) == list(two.iterdir()) == []
        assert one.stat().st_mode & 0o077 == 0
        assert Path(tempfile.gettempdir()) in one.parents
        sweep_abandoned()
        assert one.exists()


def test_removed_with_all_content_even_after_an_error_or_by_its_user():
    with pytest.raises(ZeroDivisionError), scratch_directory() as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text("x")
        os.mkfifo(folder / "fifo")
        raise ZeroDivisionError
    assert not folder.exists()
    with scratch_directory() as folder:
        folder.rmdir()


def test_a_clean_exit_leaves_nothing():
    process, folder = start("sys.exit(3)")
    assert process.wait() == 3
    assert not folder.parent.exists()
    process.stdout.close()


def test_folders_of_killed_processes_are_swept_by_the_next():
    process, folder = start("time.sleep(60)")
    with scratch_directory():
        sweep_abandoned()
        assert (folder / "file").exists()  # its owner lives
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (folder / "file").exists()
    other, its_folder = start("pass")
    other.wait()
    other.stdout.close()
    assert not folder.parent.exists()
    assert not its_folder.parent.exists()


def test_a_lock_that_outlives_its_owner_for_a_moment_is_waited_for():
    process, folder = start("import os; os.fork() or (time.sleep(0.5), os._exit(0)); print(flush=True); time.sleep(60)")
    process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)  # as when it starts a compiler, which holds the lock until it runs
    process.wait()
    process.stdout.close()
    sweep_abandoned()
    assert folder.exists()
    assert sweep_abandoned([process.pid]) >= 1
    assert not folder.parent.exists()


def test_processes_that_start_together_do_not_sweep_each_other():
    program = (
        "import time\nfrom mlgo.base.scratch import remove_own_scratch, scratch_directory\nend = time.monotonic() + 3\n"
        "while time.monotonic() < end:\n    with scratch_directory() as folder:\n        assert folder.exists()\n"
        "    remove_own_scratch()\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [run.communicate()[1] for run in runs] == [""] * 6


def test_a_forked_child_has_a_folder_of_its_own():
    with scratch_directory() as folder:
        pid = os.fork()
        if pid == 0:
            with scratch_directory() as theirs:
                os._exit(0 if theirs.parent != folder.parent else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert folder.exists()
        assert sweep_abandoned() == 1  # the child's
