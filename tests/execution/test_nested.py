"""Experiments on nested workers of a server: an ordinary pool to each of them, whoever dies."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from mlgo.core.errors import WorkerError
from mlgo.execution import LocalPool, Pool, WorkerLost, nested
from mlgo.execution.address import Address
from mlgo.execution.nested import NestedBackend, ask_status, stop_server
from mlgo.execution.nesting_server import NestingServer
from tests.conftest import REPOSITORY, WITHIN_S, all_end, processes_naming
from tests.execution.handlers import make_misbehaving, make_square
from tests.execution.nesting_handlers import log_lines, make_broken, make_cancellable, make_logging, make_opener

MLGO = Path(sys.executable).with_name("mlgo")
HOSTED = "execution.worker"  # in the command line of each hosted process


@contextlib.contextmanager
def served(address, num=2, *options):
    command = [MLGO, "workers", "serve", "--num", str(num), "--address", address.text, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        try:
            assert process.stdout.readline().startswith(f"{num} workers at {address}")
            yield process
        finally:
            process.terminate()
            process.wait(4 * WITHIN_S)


@pytest.fixture
def address(tmp_path):
    return Address.of(str(tmp_path / "w.sock"))


@pytest.fixture
def server(address):
    with served(address) as process:
        yield process
    assert not Path(address.text).exists()
    assert not address.key_path.exists()
    assert all_end(HOSTED)


def collect(pool, jobs):
    results = dict(pool.map(jobs))
    assert sorted(results) == list(range(len(jobs)))
    return [results[i] for i in range(len(jobs))]


def until(condition):
    end = time.monotonic() + WITHIN_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def test_a_pool_of_stubs_is_an_ordinary_pool(server, address, leaves_nothing):
    jobs = [*range(20), "huge"]
    with LocalPool(2, make_misbehaving) as pool:
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
    with Pool(NestedBackend(address, make_broken), 1) as pool:
        with pytest.raises(LookupError, match="there is no such compiler"):
            collect(pool, [1])


def test_handlers_and_paths_are_those_of_the_experiment(server, address, tmp_path, monkeypatch):
    (tmp_path / "here").write_text("found")
    monkeypatch.chdir(tmp_path)  # the server works elsewhere
    with Pool(NestedBackend(address, make_opener), 1) as pool:
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
            until(lambda: "a1 begins" in log_lines(log))
            late.start()
            until(lambda: sum(one["outstanding"] for one in ask_status(address)["experiments"]) == 4)
            (tmp_path / "go").touch()
            for thread in (asking, late):
                thread.join(60.0)
    begun = [line.split()[0] for line in log_lines(log)[4:] if line.endswith("begins")]
    assert begun == ["a1", "a2", "a3", "a4", "b1", "b2", "b3"]


@pytest.mark.slow
def test_deadlines_do_not_count_what_others_do(address):
    with served(address, 1):
        other = Pool(NestedBackend(address, make_misbehaving), 1)
        own = Pool(NestedBackend(address, make_cancellable), 1, deadline_s=4.0)
        with other, own:
            collect(other, [1])
            collect(own, [0.0])
            busy = threading.Thread(target=collect, args=(other, ["slow"] * 16))  # 4.8 s
            busy.start()
            until(lambda: sum(one["outstanding"] for one in ask_status(address)["experiments"]) == 2)
            assert collect(own, [0.0, 0.0]) == ["done", "done"]
            busy.join(60.0)
            (late,) = collect(own, [60.0])
            assert "took longer than 4 s" in str(late)


def test_work_goes_where_least_is_outstanding(address, tmp_path):
    """Not where the fewest workers are; but an experiment's own are spread first."""
    server = NestingServer(address, 2, own_cores=False)
    with server:
        for name in "abc":
            server.nesting[0].create(name, make_square)
        server.nesting[1].create("d", partial(make_logging, str(tmp_path / "log"), "d"))
        assert server.choose([0, 0]) == 1  # nothing to do anywhere: the fewest workers
        threading.Thread(target=lambda: server.nesting[1].call("d", (1, str(tmp_path / "go")), 60.0)).start()
        until(lambda: server.nesting[1].outstanding() == 1)
        assert server.choose([0, 0]) == 0
        assert server.choose([1, 0]) == 1
        assert server.choose([1, 1]) == 0
        (tmp_path / "go").touch()
        until(lambda: server.nesting[1].outstanding() == 0)


KILLED = """
from mlgo.execution import Pool
from mlgo.execution.address import Address
from mlgo.execution.nested import NestedBackend
from tests.execution.handlers import make_misbehaving
import sys
pool = Pool(NestedBackend(Address.of(sys.argv[1]), make_misbehaving), 2)
dict(pool.map([1, 2]))
print("ready", flush=True)
list(pool.map(["sleep"] * 4))
"""


def test_a_killed_experiment_leaves_the_others_alone(server, address):
    with Pool(NestedBackend(address, make_misbehaving), 2) as pool:
        collect(pool, [1, 2])
        own = processes_naming(HOSTED)
        command = [sys.executable, "-c", KILLED, address.text]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as other:
            assert other.stdout.readline() == "ready\n"
            until(lambda: sum(one["outstanding"] for one in ask_status(address)["nesting"]) == 4)
            assert len(processes_naming(HOSTED)) == len(own) + 2
            other.kill()
        until(lambda: processes_naming(HOSTED) == own)
        assert collect(pool, [1, 2, 3]) == [1, 4, 9]
        status = ask_status(address)
        assert [one["process"] for one in status["experiments"]] == [os.getpid()]
        assert sum(one["workers"] for one in status["nesting"]) == 2


def test_a_killed_server_is_an_error_that_says_what_to_do(address, leaves_nothing):
    with served(address) as process, leaves_nothing(), Pool(NestedBackend(address, make_misbehaving), 2) as pool:
        collect(pool, [1, 2])
        answers = pool.map(["slow", "sleep"])
        assert next(answers)[1] == "slow"
        process.kill()
        with pytest.raises(WorkerError, match=rf"the workers at {address} have gone; start them again with 'mlgo work"):
            list(answers)
        assert all_end(HOSTED)
        with pytest.raises(WorkerError, match="have gone"):
            collect(pool, [1])
    with pytest.raises(WorkerError, match=f"no workers at {address}: Connection refused; start them"):
        NestedBackend(address, make_square)
    with served(address):  # what the killed one left is no obstacle
        with Pool(NestedBackend(address, make_square), 2) as pool:
            assert collect(pool, [1, 2]) == [1, 4]


def test_a_silent_server_is_noticed(server, address, monkeypatch):
    with Pool(NestedBackend(address, make_misbehaving), 1) as pool:
        collect(pool, [1])
        monkeypatch.setattr(nested, "_QUIET_S", 0.5)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(WorkerError, match=r"have not been heard of for 0\.5 s"):
                collect(pool, [2])
        finally:
            os.kill(server.pid, signal.SIGCONT)


def test_whoever_says_nothing_or_nonsense_holds_nobody_up(server, address):
    with socket.socket(socket.AF_UNIX) as silent, contextlib.closing(address.connect()) as babbling:
        silent.connect(address.text)
        babbling.send_bytes(b"nonsense")
        with pytest.raises(EOFError):
            babbling.recv_bytes()
        with Pool(NestedBackend(address, make_square), 1) as pool:
            assert collect(pool, [3]) == [9]


def test_only_who_has_the_key_is_let_in(server, address, tmp_path):
    assert address.key_path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "other.key").write_text("guess")
    with pytest.raises(WorkerError, match=r"have another key than .*other\.key"):
        NestedBackend(Address.of(address.text, tmp_path / "other.key"), make_square)
    with pytest.raises(WorkerError, match=r"no workers at .*missing\.key: No such file"):
        NestedBackend(Address.of(address.text, tmp_path / "missing.key"), make_square)
    with pytest.raises(WorkerError, match="too long for a socket"):
        Address.of("x" * 120)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_other_machines_come_by_host_and_port(tmp_path):
    text = f"127.0.0.1:{free_port()}"
    with pytest.raises(WorkerError, match=f"{text} can be reached by others; name the file with its key"):
        Address.of(text)
    address = Address.of(text, tmp_path / "key")
    with served(address, 1, "--key", str(address.key_path)):
        with Pool(NestedBackend(address, make_misbehaving), 1) as pool:
            assert collect(pool, [3, "huge"]) == [9, b"x" * 5_000_000]
    assert address.key_path.exists()  # it may have been copied


def run(*arguments):
    return subprocess.run([MLGO, "workers", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_the_command_tells_who_uses_what_and_stops(address):
    with served(address) as process:
        with Pool(NestedBackend(address, make_square), 2) as pool:
            collect(pool, [1, 2, 3])
            status = json.loads(run("status", "--address", address.text, "--json").stdout)
            assert status["process"] == process.pid
            assert [one["workers"] for one in status["nesting"]] == [1, 1]
            ((experiment),) = status["experiments"]
            assert (experiment["process"], experiment["workers"], experiment["done"]) == (os.getpid(), 2, 3)
            assert f":{os.getpid()}" in run("status", "--address", address.text).stdout
            second = run("serve", "--address", address.text)
            assert (second.returncode, second.stdout) == (1, "")
            assert f"error: workers are already served at {address}" in second.stderr
        stopped = run("stop", "--address", address.text)
        assert (stopped.returncode, stopped.stdout) == (0, f"stopped the workers at {address}\n")
        assert process.wait(WITHIN_S) == 0
    assert all_end(HOSTED)
    assert os.listdir(Path(address.text).parent) == []  # noqa: PTH208
    gone = run("status", "--address", address.text)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr.startswith(f"error: no workers at {address}: ")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_everything(address, number, status):
    with served(address) as process:
        with Pool(NestedBackend(address, make_misbehaving), 2) as pool:
            answers = pool.map(["slow", "spawn", "sleep"])
            assert next(answers)[1] == "slow"
            until(lambda: processes_naming("sleep\x00126.5"))
            process.send_signal(number)
            assert process.wait(2 * WITHIN_S) == status
            with pytest.raises(WorkerError, match="have gone"):
                list(answers)
    assert all_end(HOSTED)
    assert all_end("sleep\x00126.5")
    assert os.listdir(Path(address.text).parent) == []  # noqa: PTH208


def test_stopping_twice_is_an_error(address):
    with served(address):
        stop_server(address)
    with pytest.raises(WorkerError, match="no workers at"):
        stop_server(address)
