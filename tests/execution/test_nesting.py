"""A worker that hosts workers: order, isolation, errors by name, load, and an end that leaves nothing."""

import os
import pickle
import signal
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from mlgo.core.errors import UnknownWorker, WorkerCrashed, WorkerError, WorkerNotMade, WorkerReleased
from mlgo.execution.nesting import NestingWorker
from tests.conftest import WITHIN_S
from tests.execution.handlers import make_misbehaving, make_square
from tests.execution.nesting_handlers import log_lines, make_broken, make_cancellable, make_logging

LONG_S = 60.0
"""Deadline for calls, in seconds; none comes near it unless something hangs."""


@pytest.fixture
def nesting(leaves_nothing):
    with leaves_nothing(), NestingWorker() as one:
        yield one


def submit(nesting, worker, job, rank=0.0):
    ended = Future()
    nesting.submit(worker, [7], pickle.dumps([(7, job)]), ended.set_result, rank=rank)
    return ended


def answer(ended):
    result = ended.result(LONG_S)
    if isinstance(result, WorkerError):
        raise result
    results, _ = pickle.loads(result)
    return results[7]


def until(condition):
    end = time.monotonic() + WITHIN_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_hosted_workers_answer(nesting):
    nesting.create("a", make_square)
    nesting.create("b", make_misbehaving)
    assert nesting.call("a", 7, LONG_S) == 49
    assert nesting.call("b", "slow", LONG_S) == "slow"
    with pytest.raises(LookupError, match="from the handler"):
        nesting.call("b", "raise", LONG_S)
    assert nesting.call("b", 3, LONG_S) == 9


def test_a_job_cancelled_twice_does_not_take_its_message_along(nesting):
    nesting.create("busy", make_misbehaving)
    nesting.create("waits", make_square)
    first = submit(nesting, "busy", "slow")
    ended = Future()
    nesting.submit("waits", [1, 2], pickle.dumps([(1, 3), (2, 4)]), ended.set_result, rank=1.0)
    nesting.cancel("waits", 1)
    nesting.cancel("waits", 1)
    assert answer(first) == "slow"
    results, left = pickle.loads(ended.result(LONG_S))
    assert (results[2], left) == (16, [])


def test_calls_to_one_worker_stay_in_order_while_those_of_others_come_between(nesting, tmp_path):
    for name in "ab":
        nesting.create(name, partial(make_logging, str(tmp_path / "log"), name))
    ended = [submit(nesting, name, (number, 0.01)) for number in range(5) for name in "ab"]
    assert [answer(one) for one in ended] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    # One at a time, in the order in which they came.
    assert log_lines(tmp_path / "log") == [
        f"{name}{number} {what}" for number in range(5) for name in "ab" for what in ("begins", "ends")
    ]


def test_two_at_once_run_side_by_side_and_each_in_order(leaves_nothing, tmp_path):
    with leaves_nothing(), NestingWorker(at_once=2) as nesting:
        for name in "ab":
            nesting.create(name, partial(make_logging, str(tmp_path / "log"), name))
            nesting.call(name, (0, 0.0), LONG_S)
        slow, after = submit(nesting, "a", (1, str(tmp_path / "end"))), submit(nesting, "a", (2, 0.0))
        until(lambda: "a1 begins" in log_lines(tmp_path / "log"))
        for one in [submit(nesting, "b", (number, 0.0)) for number in (1, 2, 3)]:
            answer(one)
        (tmp_path / "end").touch()
        assert [answer(one) for one in (slow, after)] == [1, 2]
    lines = log_lines(tmp_path / "log")[4:]
    assert [line for line in lines if line[0] == "b"] == [f"b{n} {w}" for n in (1, 2, 3) for w in ("begins", "ends")]
    assert [line for line in lines if line[0] == "a"] == ["a1 begins", "a1 ends", "a2 begins", "a2 ends"]
    assert lines.index("a1 begins") < lines.index("b3 ends") < lines.index("a1 ends")


def test_the_lowest_rank_comes_first(nesting, tmp_path):
    for name in "abc":
        nesting.create(name, partial(make_logging, str(tmp_path / "log"), name))
    ended = [submit(nesting, "a", (1, 0.5)), submit(nesting, "b", (1, 0), rank=2.0), submit(nesting, "c", (1, 0), 1.0)]
    for one in ended:
        answer(one)
    begun = [line[0] for line in log_lines(tmp_path / "log") if line.endswith("begins")]
    assert begun == ["a", "c", "b"]


def test_a_crash_harms_no_sibling(nesting):
    for name in "ab":
        nesting.create(name, make_misbehaving)
    victim, sibling = nesting.call("a", "pid", LONG_S), nesting.call("b", "pid", LONG_S)
    lost = [submit(nesting, "a", "sleep"), submit(nesting, "a", 2)]
    time.sleep(0.1)
    waiting = submit(nesting, "b", "pid")
    os.kill(victim, signal.SIGKILL)
    assert answer(waiting) == sibling
    for one in lost:
        with pytest.raises(WorkerCrashed, match="worker a crashed with exit code -9"):
            answer(one)
    with pytest.raises(WorkerCrashed, match="worker a crashed with exit code -9") as found:
        nesting.call("a", 3, LONG_S)
    assert found.value.exit_code == -signal.SIGKILL
    nesting.release("a")
    nesting.create("a", make_square)
    assert nesting.call("a", 3, LONG_S) == 9


def test_errors_name_the_worker_and_what_is_wrong(nesting):
    with pytest.raises(UnknownWorker, match="worker a is unknown here"):
        nesting.call("a", 1)
    with pytest.raises(UnknownWorker, match="worker a is unknown here"):
        nesting.release("a")
    nesting.create("a", make_square)
    with pytest.raises(WorkerError, match="worker a exists already"):
        nesting.create("a", make_square)
    nesting.release("a")
    with pytest.raises(WorkerReleased, match="worker a has been released"):
        nesting.call("a", 1)
    with pytest.raises(WorkerReleased, match="worker a has been released"):
        nesting.release("a")
    nesting.create("b", make_broken)
    for _ in range(2):
        with pytest.raises(WorkerNotMade, match="worker b could not be made: LookupError: there is no such compiler"):
            nesting.call("b", 1, LONG_S)
    nesting.create("c", b"not a pickle")
    with pytest.raises(WorkerNotMade, match="worker c could not be made: "):
        nesting.call("c", 1, LONG_S)
    nesting.create("d", make_misbehaving)
    with pytest.raises(WorkerError, match=r"worker d has not answered within 0\.2 s"):
        nesting.call("d", "sleep", 0.2)


def test_release_ends_the_call_that_runs(nesting):
    nesting.create("a", make_misbehaving)
    process = nesting.call("a", "pid", LONG_S)
    ended = [submit(nesting, "a", "sleep"), submit(nesting, "a", 1)]
    time.sleep(0.1)
    start = time.monotonic()
    nesting.release("a")
    for one in ended:
        with pytest.raises(WorkerReleased, match="worker a has been released"):
            answer(one)
    until(lambda: not os.path.exists(f"/proc/{process}"))  # noqa: PTH110
    assert time.monotonic() - start < WITHIN_S


@pytest.mark.parametrize("present", [None, "sleep", "die"])
def test_a_worker_that_leaves_takes_its_scratch_folder_along(nesting, present):
    nesting.create("a", make_misbehaving)
    folder = Path(nesting.call("a", "scratch", LONG_S)).parent
    assert folder.exists()
    if present is not None:
        submit(nesting, "a", present)
        time.sleep(0.1)
    nesting.release("a")
    until(lambda: not folder.exists())


def test_work_is_counted_by_calls_and_not_by_workers(nesting):
    for name in "abc":
        nesting.create(name, make_misbehaving)
    assert nesting.outstanding() == 0
    ended = [submit(nesting, "a", "slow"), submit(nesting, "a", 1), submit(nesting, "a", 1), submit(nesting, "b", 1)]
    assert (nesting.outstanding(), nesting.load()) == (4, {"a": 3, "b": 1, "c": 0})
    for one in ended:
        answer(one)
    assert (nesting.outstanding(), nesting.load()) == (0, {"a": 0, "b": 0, "c": 0})
    assert nesting.busy_s > 0.3


def test_a_call_that_waits_can_be_dropped_and_one_that_runs_be_ended(nesting):
    for name in "ab":
        nesting.create(name, make_cancellable)
        assert nesting.call(name, 0.0, LONG_S) == "done"
    runs, waits = submit(nesting, "a", LONG_S), submit(nesting, "b", LONG_S)
    nesting.cancel("b", 7)
    with pytest.raises(WorkerError, match="the call to worker b was cancelled before it began"):
        raise answer(waits).error
    time.sleep(0.1)
    nesting.cancel("a", 7)
    assert answer(runs) == "cancelled"
    nesting.cancel("a", 7)  # nothing to cancel
    assert nesting.call("a", 0.0, LONG_S) == "done"


def test_hosted_workers_outlive_the_threads_that_ask(leaves_nothing):
    """The kernel ends a worker with the thread that started it, which must not be one of the callers'."""
    found = []

    def ask():
        found.append(NestingWorker())
        found[0].create("a", make_misbehaving)
        found.append(found[0].call("a", "pid", LONG_S))

    with leaves_nothing():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        time.sleep(0.1)
        assert found[0].call("a", "pid", LONG_S) == found[1]
        found.pop(0).close()


def test_the_end_of_a_nesting_worker_is_that_of_all_it_hosts(leaves_nothing):
    with leaves_nothing():
        nesting = NestingWorker()
        for name in "ab":
            nesting.create(name, make_misbehaving)
        processes = [nesting.call(name, "pid", LONG_S) for name in "ab"]
        ended = submit(nesting, "a", "sleep")
        time.sleep(0.1)
        nesting.close()
        with pytest.raises(WorkerReleased, match="worker a has been released"):
            answer(ended)
        assert not any(os.path.exists(f"/proc/{process}") for process in processes)  # noqa: PTH110
        with pytest.raises(WorkerError, match="worker c cannot be created: its nesting worker is closed"):
            nesting.create("c", make_square)
