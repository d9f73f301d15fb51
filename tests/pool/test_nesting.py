"""A worker that hosts workers: order, isolation, errors by name, load, and an end that leaves nothing."""

import asyncio
import os
import pickle
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from mlgo.errors import WorkerCrashed, WorkerError, WorkerOverdue, WorkerReleased
from mlgo.pool.local import WorkerEnvironment
from mlgo.pool.nesting import PROTOCOL, NestingWorker
from mlgo.pool.worker import Raised
from tests.conftest import WITHIN_S, wait_for
from tests.pool.handlers import log_lines, make_cancellable, make_failing, make_logging, make_misbehaving, make_square

pytestmark = pytest.mark.slow

LONG_S = 60.0
"""Deadline for calls, in seconds; none comes near it unless something hangs."""


class Nesting:
    """A nesting worker on an event loop of its own thread, as in an actor; its methods wait for what they give."""

    def __init__(self, *args, **options):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.gone = self.loop.create_future()
        self.worker = self.run(self._make(*args, **options))

    async def _make(self, *args, **options):
        return NestingWorker(*args, **options)

    async def _experiments_die(self):
        self.gone.set_result(None)
        while self.worker._watches:
            await asyncio.sleep(0)

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LONG_S)

    def __getattr__(self, name):
        return lambda *args, **options: self.run(getattr(self.worker, name)(*args, **options))

    def begin(self, experiment, make_handler):
        """An experiment, whose workers have its name, or begin with it and a dot."""
        maker = make_handler if isinstance(make_handler, bytes) else pickle.dumps(make_handler)
        return self.join(experiment, PROTOCOL, maker, WorkerEnvironment.here(), {}, [self.gone])

    def submit(self, worker, jobs, **options):
        """The answer to come."""
        message = pickle.dumps(list(jobs.items()))
        work = self.worker.submit(worker.partition(".")[0], worker, list(jobs), message, **options)
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def submit_one(self, worker, job, **options):
        return self.submit(worker, {7: job}, **options)

    def call(self, worker, job, deadline_s=LONG_S):
        result = answer(self.submit_one(worker, job, deadline_s=deadline_s))
        if isinstance(result, Raised):
            raise result.error
        return result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self.run(self._experiments_die())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(WITHIN_S)
        self.loop.close()


@pytest.fixture
def nesting(leaves_nothing):
    with leaves_nothing(), Nesting() as one:
        yield one


def answer(ended):
    results, _ = pickle.loads(ended.result(LONG_S))
    return results[7]


def test_hosted_workers_answer(nesting):
    nesting.begin("a", make_square)
    nesting.begin("b", make_misbehaving)
    assert nesting.call("a", 7) == 49
    assert nesting.call("b", "slow") == "slow"
    with pytest.raises(LookupError, match="from the handler"):
        nesting.call("b", "raise")
    assert nesting.call("b", 3) == 9


def test_a_job_cancelled_twice_does_not_take_its_message_along(nesting):
    nesting.begin("busy", make_misbehaving)
    nesting.begin("waits", make_square)
    first = nesting.submit_one("busy", "slow")
    ended = nesting.submit("waits", {1: 3, 2: 4})
    nesting.cancel("waits", 1)
    nesting.cancel("waits", 1)
    assert answer(first) == "slow"
    results, left = pickle.loads(ended.result(LONG_S))
    assert (results[2], left) == (16, [])


def test_calls_to_one_worker_stay_in_order_while_those_of_others_come_between(nesting, tmp_path):
    nesting.begin("one", partial(make_logging, str(tmp_path / "log"), ""))
    jobs = [f"{name}{number}" for number in range(5) for name in "ab"]
    ended = [nesting.submit_one(f"one.{job[0]}", (job, 0.01)) for job in jobs]
    assert [answer(one) for one in ended] == jobs
    # One at a time, in the order in which they came.
    assert log_lines(tmp_path / "log") == [f"{job} {what}" for job in jobs for what in ("begins", "ends")]


def test_two_at_once_run_side_by_side_and_each_in_order(leaves_nothing, tmp_path):
    with leaves_nothing(), Nesting(at_once=2) as nesting:
        for name in "ab":
            nesting.begin(name, partial(make_logging, str(tmp_path / "log"), name))
            nesting.call(name, (0, 0.0))
        slow, after = nesting.submit_one("a", (1, str(tmp_path / "end"))), nesting.submit_one("a", (2, 0.0))
        wait_for(lambda: "a1 begins" in log_lines(tmp_path / "log"))
        for one in [nesting.submit_one("b", (number, 0.0)) for number in (1, 2, 3)]:
            answer(one)
        (tmp_path / "end").touch()
        assert [answer(one) for one in (slow, after)] == [1, 2]
    lines = log_lines(tmp_path / "log")[4:]
    assert [line for line in lines if line[0] == "b"] == [f"b{n} {w}" for n in (1, 2, 3) for w in ("begins", "ends")]
    assert [line for line in lines if line[0] == "a"] == ["a1 begins", "a1 ends", "a2 begins", "a2 ends"]
    assert lines.index("a1 begins") < lines.index("b3 ends") < lines.index("a1 ends")


def test_the_experiment_whose_turn_it_is_comes_first(nesting, tmp_path):
    """Who asked first is served first, also with jobs that it sends later."""
    for experiment in ("one", "other"):
        nesting.begin(experiment, partial(make_logging, str(tmp_path / "log"), ""))
    ended = [nesting.submit_one("one.a", ("a1", 0.5))]
    wait_for(lambda: log_lines(tmp_path / "log") == ["a1 begins"])
    ended += [nesting.submit_one("other.c", ("c1", 0))]
    ended += [nesting.submit_one("one.b", (number, 0)) for number in ("b1", "b2")]
    for one in ended:
        answer(one)
    begun = [line.split()[0] for line in log_lines(tmp_path / "log") if line.endswith("begins")]
    assert begun == ["a1", "b1", "b2", "c1"]


def test_workers_are_spread_and_then_go_where_least_is_outstanding(leaves_nothing, tmp_path):
    """Not where the fewest workers are, unless nothing is outstanding anywhere."""

    def hosted():
        return [core["workers"] for core in nesting.status()["cores"]]

    with leaves_nothing(), Nesting(2) as nesting:
        for experiment in ("one", "two", "three"):
            nesting.begin(experiment, partial(make_logging, str(tmp_path / "log"), experiment))
        for name, counts in (("one.a", [1, 0]), ("one.b", [1, 1]), ("two.c", [2, 1]), ("two.d", [2, 2])):
            nesting.call(name, (1, 0.0))
            assert hosted() == counts
        nesting.release("one.b")
        held_up = nesting.submit_one("two.d", (2, str(tmp_path / "go")))
        wait_for(lambda: "two2 begins" in log_lines(tmp_path / "log"))
        assert hosted() == [2, 1]
        nesting.call("three.e", (1, 0.0))  # beside two workers that are idle, not beside one that is busy
        assert hosted() == [3, 1]
        (tmp_path / "go").touch()
        assert answer(held_up) == 2


def test_the_workers_of_an_experiment_that_ends_are_released(leaves_nothing):
    with leaves_nothing(), Nesting() as nesting:

        async def gone():
            await asyncio.sleep(0.2)
            raise OSError("its owner has died")

        maker = pickle.dumps(make_misbehaving)
        assert nesting.join("one", PROTOCOL, maker, WorkerEnvironment.here(), {"process": 1}, [gone()]) == 1
        assert nesting.begin("other", make_misbehaving) == 1
        ended = nesting.submit_one("one.a", "sleep")
        with pytest.raises(WorkerReleased, match=r"worker one\.a has been released"):
            answer(ended)
        assert nesting.call("other.b", 3) == 9
        assert [one["workers"] for one in nesting.status()["experiments"]] == [1]
        with pytest.raises(WorkerError, match="of another version of mlgo"):
            nesting.join("two", PROTOCOL - 1, maker, WorkerEnvironment.here(), {}, [])
        with pytest.raises(WorkerError, match="/nowhere, which the experiment uses, is not on the workers' machine"):
            nesting.join("two", PROTOCOL, maker, WorkerEnvironment(sys.executable, (), "/nowhere"), {}, [])


def test_calls_of_an_experiment_are_done_in_the_order_of_their_numbers(nesting):
    """Ray delivers them in any order."""
    nesting.begin("one", make_misbehaving)

    def ask(number, method, *args):
        work = nesting.worker.in_order("one", number, method, *args)
        return asyncio.run_coroutine_threadsafe(work, nesting.loop)

    jobs = [pickle.dumps([(ticket, job)]) for ticket, job in ((1, 3), (2, "sleep"))]
    asked = {
        3: ask(3, "release", "a"),
        2: ask(2, "submit", "one", "a", [2], jobs[1]),
        1: ask(1, "submit", "one", "a", [1], jobs[0]),
    }
    time.sleep(0.1)
    assert not any(one.done() for one in asked.values())
    assert ask(0, "cancel", "a", 5).result(LONG_S) is None  # of no worker yet
    for number in (1, 2):
        with pytest.raises(WorkerReleased, match="worker a has been released"):
            asked[number].result(LONG_S)
    assert asked[3].result(LONG_S) is None
    assert nesting.outstanding() == {}
    nesting.leave("one")
    with pytest.raises(WorkerReleased, match="all workers of this experiment have been released"):
        ask(4, "cancel", "a", 5).result(LONG_S)


def test_an_experiment_that_leaves_while_it_asks_for_a_worker_leaves_nothing_behind(nesting):
    nesting.begin("one", make_square)

    async def at_once():
        asked = nesting.worker.in_order("one", 0, "submit", "one", "a", [1], pickle.dumps([(1, 3)]))
        return await asyncio.gather(asked, nesting.worker.leave("one"), return_exceptions=True)

    released, _ = nesting.run(at_once())
    assert isinstance(released, WorkerReleased)
    assert (nesting.status()["experiments"], nesting.outstanding()) == ([], {})


def test_a_worker_that_hangs_holds_up_nobody_else(leaves_nothing):
    """Also with a message on its way that it does not read."""
    with leaves_nothing(), Nesting(2) as nesting:
        for name in "ab":
            nesting.begin(name, make_misbehaving)
        stopped = nesting.call("a", "pid")
        os.kill(stopped, signal.SIGSTOP)
        ended = nesting.submit_one("a", b"x" * 5_000_000)
        nesting.call("b", 3)
        asyncio.run_coroutine_threadsafe(nesting.worker.cancel("a", 7), nesting.loop)
        assert nesting.call("b", 4) == 16
        nesting.release("a")
        with pytest.raises(WorkerReleased):
            answer(ended)


def test_a_crash_harms_no_sibling(nesting):
    for name in "ab":
        nesting.begin(name, make_misbehaving)
    victim, sibling = nesting.call("a", "pid"), nesting.call("b", "pid")
    lost = [nesting.submit_one("a", "sleep"), nesting.submit_one("a", 2)]
    time.sleep(0.1)
    waiting = nesting.submit_one("b", "pid")
    os.kill(victim, signal.SIGKILL)
    assert answer(waiting) == sibling
    for one in lost:
        with pytest.raises(WorkerCrashed, match="worker a crashed with exit code -9"):
            answer(one)
    with pytest.raises(WorkerCrashed, match="worker a crashed with exit code -9") as found:
        nesting.call("a", 3)
    assert found.value.exit_code == -signal.SIGKILL
    nesting.release("a")
    assert nesting.call("a", 3) == 9


def test_errors_name_the_worker_and_what_is_wrong(nesting):
    nesting.release("unknown")  # a worker that has had no call
    nesting.begin("b", make_failing)
    for _ in range(2):
        with pytest.raises(OSError, match="no such thing here"):
            nesting.call("b", 1)
    nesting.begin("c", b"not a pickle")
    with pytest.raises(pickle.UnpicklingError):
        nesting.call("c", 1)
    nesting.begin("d", make_misbehaving)
    with pytest.raises(WorkerOverdue, match=r"worker d took longer than 0\.2 s"):
        nesting.call("d", "sleep", 0.2)


def test_release_ends_the_call_that_runs(nesting):
    nesting.begin("a", make_misbehaving)
    process = nesting.call("a", "pid")
    ended = [nesting.submit_one("a", "sleep"), nesting.submit_one("a", 1)]
    time.sleep(0.1)
    start = time.monotonic()
    nesting.release("a")
    for one in ended:
        with pytest.raises(WorkerReleased, match="worker a has been released"):
            answer(one)
    wait_for(lambda: not os.path.exists(f"/proc/{process}"))  # noqa: PTH110
    assert time.monotonic() - start < WITHIN_S


@pytest.mark.parametrize("present", [None, "sleep", "die"])
def test_a_worker_that_leaves_takes_its_scratch_folder_along(nesting, present):
    nesting.begin("a", make_misbehaving)
    folder = Path(nesting.call("a", "scratch")).parent
    assert folder.exists()
    if present is not None:
        nesting.submit_one("a", present)
        time.sleep(0.1)
    nesting.release("a")
    wait_for(lambda: not folder.exists())


def test_work_is_counted_by_calls_and_not_by_workers(nesting):
    for name in "ab":
        nesting.begin(name, make_misbehaving)
    assert nesting.outstanding() == {}
    ended = [nesting.submit_one(name, job) for name, job in (("a", "slow"), ("a", 1), ("a", 1), ("b", 1))]
    assert nesting.outstanding() == {"a": 3, "b": 1}
    assert nesting.status()["cores"][0]["outstanding"] == 4
    for one in ended:
        answer(one)
    assert nesting.outstanding() == {"a": 0, "b": 0}
    assert nesting.worker._cores[0].busy_s > 0.3


def test_a_call_that_waits_can_be_dropped_and_one_that_runs_be_ended(nesting):
    for name in "ab":
        nesting.begin(name, make_cancellable)
        assert nesting.call(name, 0.0) == "done"
    runs, waits = nesting.submit_one("a", LONG_S), nesting.submit_one("b", LONG_S)
    nesting.cancel("b", 7)
    with pytest.raises(WorkerError, match="the call to worker b was cancelled before it began"):
        raise answer(waits).error
    time.sleep(0.1)
    nesting.cancel("a", 7)
    assert answer(runs) == "cancelled"
    nesting.cancel("a", 7)  # nothing to cancel
    assert nesting.call("a", 0.0) == "done"


def test_the_end_of_a_nesting_worker_is_that_of_all_it_hosts(leaves_nothing):
    with leaves_nothing(), Nesting() as nesting:
        for name in "ab":
            nesting.begin(name, make_misbehaving)
        processes = [nesting.call(name, "pid") for name in "ab"]
        ended = nesting.submit_one("a", "sleep")
        time.sleep(0.1)
        nesting.close()
        with pytest.raises(WorkerReleased, match="worker a has been released"):
            answer(ended)
        assert not any(os.path.exists(f"/proc/{process}") for process in processes)  # noqa: PTH110
        with pytest.raises(WorkerReleased, match="the nesting worker is closed"):
            nesting.begin("c", make_square)
        nesting.ended()
