"""Worker processes: results in their places, deaths survived, nothing left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlgo.pool import LocalBackend, Pool, WorkerLost
from tests.conftest import REPOSITORY, all_end, begins, children, wait_for
from tests.pool.handlers import collect, make_misbehaving, make_square


@pytest.fixture
def pool(leaves_nothing):
    """Two workers, which leave nothing behind."""
    with leaves_nothing(descriptors=False), Pool(LocalBackend(make_misbehaving), 2) as one:
        yield one


@pytest.mark.slow
def test_descriptors_go_with_the_pool(leaves_nothing):
    with leaves_nothing(), Pool(LocalBackend(make_misbehaving), 2) as pool:
        collect(pool, [1, 2, "die", 3])


@pytest.mark.slow
def test_slow_jobs_do_not_hold_others_back():
    with Pool(LocalBackend(make_misbehaving), 2) as pool:
        collect(pool, [1, 1])
        order = [position for position, _ in pool.map(["slow", 1, 2, 3])]
    assert order[-1] == 0


def test_processes_are_reused():
    with Pool(LocalBackend(make_misbehaving), 1) as pool:
        first, second = collect(pool, ["pid", "pid"])
        assert first == second != os.getpid()


def test_a_folder_that_is_removed_is_inherited(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with Pool(LocalBackend(make_square), 1) as pool:
        assert collect(pool, [3]) == [9]


def test_no_process_before_the_first_job(leaves_nothing):
    with leaves_nothing(descriptors=False):
        before = children()
        with Pool(LocalBackend(make_square), 3):
            assert children() == before


@pytest.mark.slow
def test_a_worker_that_dies_loses_only_its_job(pool):
    results = collect(pool, [1, 2, "die", 3, 4, "exit", 5])
    assert [results[2].exit_code, results[5].exit_code] == [-signal.SIGKILL, 7]
    assert [result for result in results if not isinstance(result, WorkerLost)] == [1, 4, 9, 16, 25]
    assert collect(pool, [6, 7]) == [36, 49]


def test_a_worker_killed_from_outside(leaves_nothing):
    with leaves_nothing(descriptors=False), Pool(LocalBackend(make_misbehaving), 1) as pool:
        (pid,) = collect(pool, ["pid"])
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        first, second = collect(pool, [3, 4])
        assert isinstance(first, WorkerLost)
        assert second == 16


def test_a_caller_that_gives_up_gets_no_old_answers_later(pool):
    collect(pool, [1, 1])
    answers = pool.map(["sleep", 5, 6])
    assert next(answers) == (1, 25)
    answers.close()
    start = time.monotonic()
    assert collect(pool, [7, 8, 9]) == [49, 64, 81]
    assert time.monotonic() - start < 10.0


def test_large_results(pool):
    assert [len(result) for result in collect(pool, ["huge", "huge"])] == [5_000_000] * 2


def test_giving_up_ends_busy_workers_and_their_children(pool):
    answers = pool.map(["spawn", 2])
    assert next(answers) == (1, 4)
    assert begins("sleep\x00126.5")
    answers.close()
    assert all_end("sleep\x00126.5")


def test_workers_leave_no_scratch_folders(own_temporary_folder):
    with Pool(LocalBackend(make_misbehaving), 2) as pool:
        folders = collect(pool, ["scratch", "scratch", "die"])[:2]
    for folder in folders:
        assert not Path(folder).parent.exists()


def test_workers_die_with_a_killed_parent():
    program = (
        "from mlgo.pool import LocalBackend, Pool\n"
        "from tests.pool.handlers import make_misbehaving\n"
        "if __name__ == '__main__':\n"
        "    pool = Pool(LocalBackend(make_misbehaving), 1)\n"
        "    print(dict(pool.map(['pid']))[0], flush=True)\n"
        "    list(pool.map(['sleep']))\n"
    )
    script = Path(os.environ["TMPDIR"]) / "parent.py"
    script.write_text(program)
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        worker = int(parent.stdout.readline())
        assert Path(f"/proc/{worker}").exists()
        parent.kill()
        parent.wait()
    wait_for(lambda: not Path(f"/proc/{worker}").exists())


def test_each_worker_has_a_core_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # where no other test's workers claim cores
    cores = sorted(os.sched_getaffinity(0))
    with Pool(LocalBackend(make_misbehaving), len(cores)) as pool:
        taken = collect(pool, ["affinity"] * len(cores))
    assert all(len(affinity) == 1 and affinity[0] in cores for affinity in taken)
    assert sorted(os.sched_getaffinity(0)) == cores  # the parent may still run anywhere
