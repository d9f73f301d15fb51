"""Experiments on a nesting worker of a real Ray cluster: an ordinary pool to each of them, whoever dies."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest

from mlgo.base.config import LOCAL_WORKERS
from mlgo.errors import WorkerError
from mlgo.pool import LocalBackend, Pool, WorkerLost, nested, open_pool
from mlgo.pool.nested import NestedBackend, NestingProxy
from tests.conftest import REPOSITORY, all_end, processes_naming, wait_for
from tests.pool.clusters import TestCluster, needs_ray
from tests.pool.handlers import (
    collect,
    log_lines,
    make_cancellable,
    make_failing,
    make_logging,
    make_misbehaving,
    make_reader,
    make_square,
)

MLGO = Path(sys.executable).with_name("mlgo")
HOSTED = "pool.worker"  # in the command line of each hosted process
LONG_S = 120.0

pytestmark = [needs_ray, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster():
    one = TestCluster()
    yield one
    one.close()


NUMBERS = itertools.count()


@pytest.fixture
def address(cluster):
    """Of a nesting worker with a name of its own."""
    return f"{cluster.address}/w{next(NUMBERS)}"


@contextlib.contextmanager
def served(address, num=2, *options, folder=REPOSITORY):
    command = [MLGO, "workers", "serve", "--num", str(num), *options]
    command += ["--address", address] if address else []
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment) as process:
        try:
            assert process.stdout.readline().startswith(f"{num} workers at {address}")
            yield process
        finally:
            process.terminate()
            process.wait(LONG_S)


@pytest.fixture
def server(address):
    with served(address) as process:
        yield process
    assert all_end(HOSTED)


def status_of(address):
    with NestingProxy(address) as proxy:
        return proxy.status()


def test_a_pool_of_stubs_is_an_ordinary_pool(server, address, leaves_nothing):
    jobs = [*range(20), "huge"]
    with Pool(LocalBackend(make_misbehaving), 2) as pool:
        expected = collect(pool, jobs)
    with leaves_nothing(descriptors=False), Pool(NestedBackend(address, make_misbehaving), 2) as pool:
        assert collect(pool, jobs) == expected
        first, second = set(collect(pool, ["pid"] * 10)), set(collect(pool, ["pid"] * 10))
        assert len(first | second) <= 2  # processes are reused
        results = collect(pool, [1, 2, "die", 3, "exit", 5])
        lost = [one for one in results if isinstance(one, WorkerLost)]
        assert [one.exit_code for one in lost] == [-signal.SIGKILL, 7]
        assert [one for one in results if not isinstance(one, WorkerLost)] == [1, 4, 9, 25]
        with pytest.raises(LookupError, match="from the handler"):
            collect(pool, [1, "raise", 2, 3])
        answers = pool.map(["sleep", 5, 6])
        assert next(answers)[1] == 25
        answers.close()
        assert collect(pool, [7, 8, 9]) == [49, 64, 81]
        assert pool.num_lost == 2
    assert all_end(HOSTED)


def test_what_the_maker_of_handlers_raises_reaches_the_experiment(server, address):
    with Pool(NestedBackend(address, make_failing), 1) as pool:
        with pytest.raises(OSError, match="no such thing here"):
            collect(pool, [1])


def test_handlers_and_paths_are_those_of_the_experiment(server, address, tmp_path, monkeypatch):
    (tmp_path / "here").write_text("found")
    monkeypatch.chdir(tmp_path)  # the server works elsewhere
    with Pool(NestedBackend(address, make_reader), 1) as pool:
        assert collect(pool, ["here"]) == ["found"]


def test_cancelled_jobs_are_dropped_or_ended(server, address):
    with Pool(NestedBackend(address, make_cancellable), 1) as pool:
        answers = pool.map([0.0, 60.0, 60.0, 0.0, 0.0])
        assert next(answers) == (0, "done")
        pool.cancel([1, 2, 3])
        assert list(answers) == [(4, "done")]
        assert pool.num_lost == 0


def test_experiments_take_turns(address, tmp_path):
    """Who asked first is served first, also with jobs that it sends later."""
    log = tmp_path / "log"
    with served(address, 1):
        backends = [NestedBackend(address, partial(make_logging, str(log), name)) for name in "ab"]
        with Pool(backends[0], 1) as first, Pool(backends[1], 1) as second:
            collect(first, [(0, 0.0)])
            collect(second, [(0, 0.0)])
            late = threading.Thread(target=collect, args=(second, [(1, 0.0), (2, 0.0), (3, 0.0)]))
            answers = first.map([(1, str(tmp_path / "go")), (2, 0.3), (3, 0.3), (4, 0.3)])
            asking = threading.Thread(target=lambda: list(answers))
            asking.start()
            wait_for(lambda: "a1 begins" in log_lines(log))
            late.start()
            wait_for(lambda: sum(one["outstanding"] for one in status_of(address)["experiments"]) == 4)
            (tmp_path / "go").touch()
            for thread in (asking, late):
                thread.join(60.0)
    begun = [line.split()[0] for line in log_lines(log)[4:] if line.endswith("begins")]
    assert begun == ["a1", "a2", "a3", "a4", "b1", "b2", "b3"]


def test_deadlines_do_not_count_what_others_do(address):
    with served(address, 1):
        other = Pool(NestedBackend(address, make_misbehaving), 1)
        own = Pool(NestedBackend(address, make_cancellable, 4.0), 1)
        with other, own:
            collect(other, [1])
            collect(own, [0.0])
            busy = threading.Thread(target=collect, args=(other, ["slow"] * 16))  # 4.8 s
            busy.start()
            wait_for(lambda: sum(one["outstanding"] for one in status_of(address)["experiments"]) == 2)
            assert collect(own, [0.0, 0.0]) == ["done", "done"]
            busy.join(60.0)
            (late,) = collect(own, [60.0])
            assert "took longer than 4 s" in str(late)


KILLED = """
from mlgo.pool import Pool
from mlgo.pool.nested import NestedBackend
from tests.pool.handlers import make_misbehaving
import sys
pool = Pool(NestedBackend(sys.argv[1], make_misbehaving), 2)
dict(pool.map([1, 2]))
print("ready", flush=True)
list(pool.map(["sleep"] * 4))
"""


def test_a_killed_experiment_leaves_the_others_alone(server, address):
    with Pool(NestedBackend(address, make_misbehaving), 2) as pool:
        collect(pool, [1, 2])
        own = processes_naming(HOSTED)
        command = [sys.executable, "-c", KILLED, address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as other:
            assert other.stdout.readline() == "ready\n"
            wait_for(lambda: sum(one["outstanding"] for one in status_of(address)["cores"]) == 4)
            assert len(processes_naming(HOSTED)) == len(own) + 2
            other.kill()
        wait_for(lambda: processes_naming(HOSTED) == own)
        assert collect(pool, [1, 2, 3]) == [1, 4, 9]
        status = status_of(address)
        assert [one["process"] for one in status["experiments"]] == [os.getpid()]
        assert sum(one["workers"] for one in status["cores"]) == 2


def test_a_killed_server_is_an_error_that_says_what_to_do(address, leaves_nothing):
    gone = f"the workers at {address} have gone; start them with 'mlgo workers serve'"
    with served(address) as process, leaves_nothing(descriptors=False):
        with Pool(NestedBackend(address, make_misbehaving), 2) as pool:
            collect(pool, [1, 2])
            answers = pool.map(["slow", "sleep"])
            assert next(answers)[1] == "slow"
            process.kill()
            with pytest.raises(WorkerError, match=gone):
                list(answers)
            assert all_end(HOSTED)
            with pytest.raises(WorkerError, match=gone):
                collect(pool, [1])
    with pytest.raises(WorkerError, match=f"no workers at {address}; start them with 'mlgo workers serve'"):
        NestedBackend(address, make_square)
    with served(address):  # what the killed one left is no obstacle
        with Pool(NestedBackend(address, make_square), 2) as pool:
            assert collect(pool, [1, 2]) == [1, 4]


def test_a_silent_server_is_noticed(server, address, monkeypatch):
    with Pool(NestedBackend(address, make_misbehaving), 1) as pool:
        collect(pool, [1])
        monkeypatch.setattr(nested, "_QUIET_S", 0.5)
        monkeypatch.setattr(nested, "_ANSWER_S", 0.5)
        actor = status_of(address)["process"]
        os.kill(actor, signal.SIGSTOP)
        try:
            with pytest.raises(WorkerError, match=rf"the workers at {address} have not answered for 0\.5 s"):
                collect(pool, [2])
        finally:
            os.kill(actor, signal.SIGCONT)


def run(*arguments, **options):
    command = [MLGO, "workers", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False, **options)


def test_the_command_tells_who_uses_what_and_stops(address):
    with served(address) as process:
        with Pool(NestedBackend(address, make_square), 2) as pool:
            collect(pool, [1, 2, 3])
            status = json.loads(run("status", "--address", address, "--json").stdout)
            assert status["address"] == address
            assert [one["workers"] for one in status["cores"]] == [1, 1]
            ((experiment),) = status["experiments"]
            assert (experiment["process"], experiment["workers"], experiment["done"]) == (os.getpid(), 2, 3)
            assert f":{os.getpid()}" in run("status", "--address", address).stdout
            second = run("serve", "--address", address)
            assert (second.returncode, second.stdout) == (1, "")
            assert f"error: workers are already served at {address}" in second.stderr
        stopped = run("stop", "--address", address)
        assert (stopped.returncode, stopped.stdout) == (0, f"stopped the workers at {address}\n")
        assert process.wait(LONG_S) == 0
    assert all_end(HOSTED)
    gone = run("stop", "--address", address)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr.startswith(f"error: no workers at {address}; start them")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_everything(address, number, status):
    with served(address) as process:
        with Pool(NestedBackend(address, make_misbehaving), 2) as pool:
            answers = pool.map(["slow", "spawn", "sleep"])
            assert next(answers)[1] == "slow"
            wait_for(lambda: processes_naming("sleep\x00126.5"))
            process.send_signal(number)
            assert process.wait(LONG_S) == status
            with pytest.raises(WorkerError, match="have gone"):
                list(answers)
    assert all_end(HOSTED)
    assert all_end("sleep\x00126.5")


def test_one_machine_is_a_cluster_too(tmp_path, monkeypatch):
    """Without an address, workers of a working copy are found by those who work in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # names of sockets have 107 bytes at most
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    with pytest.raises(WorkerError, match=r"no workers: there is no data/work/workers\.address; start them with"):
        NestedBackend("", make_square)
    try:
        with served("", 1, folder=tmp_path) as process:
            config = LOCAL_WORKERS.model_copy(update={"kind": "nested"})
            with open_pool(config, 5, make_misbehaving) as pool:
                assert pool.num_workers == 1
                assert collect(pool, [3, "huge"]) == [9, b"x" * 5_000_000]
                second = run("serve")
                assert (second.returncode, second.stdout) == (1, "")
                assert "error: workers are already served at " in second.stderr
            assert run("stop").returncode == 0
            assert process.wait(LONG_S) == 0
        assert not nested.ADDRESS_FILE.exists()
        assert list((folder / "ray").glob("session_2*")) == []
        assert all_end(str(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
