"""One pool over every backend: results in their places, deaths survived, nothing done that nobody wants."""

import itertools
import os
import time

import pytest

from mlgo.base.config import LOCAL_WORKERS
from mlgo.pool import Hint, LocalBackend, Pool, WorkerLost, open_pool
from mlgo.pool.local import SerialBackend
from tests.conftest import all_end, children
from tests.pool.handlers import make_cancellable, make_dying_once, make_failing, make_misbehaving, make_square


@pytest.mark.parametrize(("kind", "num_workers"), [("serial", 1), ("local", 1), ("local", 3)])
def test_results_and_errors_do_not_depend_on_the_kind_of_worker(kind, num_workers, leaves_nothing):
    where = LOCAL_WORKERS.model_copy(update={"kind": kind})
    with leaves_nothing(descriptors=False), open_pool(where, num_workers, make_misbehaving) as pool:
        assert pool.num_workers == num_workers
        for jobs in (range(50), [], [7]):
            assert dict(pool.map(jobs)) == {i: job * job for i, job in enumerate(jobs)}
        with pytest.raises(LookupError, match="from the handler"):
            list(pool.map([1, "raise", 2, 3]))
        assert dict(pool.map([4, 5, 6])) == {0: 16, 1: 25, 2: 36}


def test_one_handler_for_all_jobs_of_this_process():
    with Pool(SerialBackend(make_misbehaving), 1) as pool:
        assert dict(pool.map(["pid", "pid"])) == {0: os.getpid(), 1: os.getpid()}


def test_a_handler_that_cannot_be_made_is_an_error_not_a_lost_worker(leaves_nothing):
    with leaves_nothing(descriptors=False), Pool(LocalBackend(make_failing), 2) as pool:
        with pytest.raises(OSError, match="no such thing here"):
            list(pool.map([1, 2, 3]))


@pytest.mark.slow
def test_a_job_whose_worker_died_is_done_by_another(tmp_path):
    with Pool(LocalBackend(make_dying_once(tmp_path)), 2, retries=1) as pool:
        assert dict(pool.map(range(8))) == {i: i for i in range(8)}
        assert pool.num_lost == 8  # each killed its first worker


def test_a_job_that_kills_every_worker_is_given_up_after_the_retries():
    with Pool(LocalBackend(make_misbehaving), 2, retries=2) as pool:
        results = dict(pool.map([2, "die", 3]))
    assert (results[0], results[2]) == (4, 9)
    assert results[1] == WorkerLost(-9, "", 3)
    assert str(results[1]) == "its worker died with exit code -9, as did 2 before it"


def test_a_job_beyond_its_deadline_is_lost_and_the_others_are_not(leaves_nothing):
    with leaves_nothing(descriptors=False), Pool(LocalBackend(make_misbehaving), 1, retries=3, deadline_s=5.0) as pool:
        begin = time.monotonic()
        results = dict(pool.map([2, "spawn", 3]))  # the second starts a sleep of 126.5 s
        assert time.monotonic() - begin < 60.0
        assert (results[0], results[2]) == (4, 9)
        assert str(results[1]) == "it took longer than 5 s"
        assert all_end("sleep\x00126.5")


class Overtaking(SerialBackend):
    """Workers that hold two jobs, and whose later answer comes first."""

    depth = 2

    def wait(self, timeout_s):
        self._sent.rotate(1)
        return super().wait(timeout_s)


def test_answers_may_overtake_each_other():
    with Pool(Overtaking(make_square), 2) as pool:
        assert dict(pool.map(range(20))) == {i: i * i for i in range(20)}


def test_jobs_are_taken_from_the_caller_only_as_room_is_made():
    taken = itertools.count()
    last = 0

    def jobs():
        nonlocal last
        for _ in range(10_000):
            last = next(taken)
            yield 1

    with Pool(SerialBackend(make_square), 1) as pool:
        for done, _ in enumerate(pool.map(jobs(), lookahead=16), 1):
            assert last <= done + 16
    assert done == 10_000


def test_large_jobs_first_and_those_of_one_group_together():
    costs = {"a": 1.0, "b": 5.0, "c": 3.0}
    jobs = ["a", "b", "c", "a", "b", "c"]
    with Pool(SerialBackend(make_echo), 1) as pool:
        order = [result for _, result in pool.map(jobs, lambda job: Hint(job, costs[job]))]
    assert order == ["b", "b", "c", "c", "a", "a"]


def make_echo():
    return lambda job: job


NUMBERS = itertools.count()


def make_counted():
    """Jobs give the number of their worker."""
    number = next(NUMBERS)
    return lambda job: number


def test_a_group_stays_with_its_worker_from_one_round_to_the_next():
    with Pool(SerialBackend(make_counted), 2) as pool:
        rounds = [dict(pool.map("ab" * 6, Hint)) for _ in range(3)]
    homes = [{(position % 2, worker) for position, worker in one.items()} for one in rounds]
    assert len(homes[0]) == 2
    assert homes[0] == homes[1] == homes[2]


def test_jobs_that_wait_are_dropped_when_nobody_wants_them():
    with Pool(SerialBackend(make_echo), 1) as pool:
        results = []
        for position, result in pool.map(range(10)):
            results.append(result)
            if position == 2:
                pool.cancel(range(5, 10))
    assert results == [0, 1, 2, 3, 4]


def test_a_job_that_runs_is_ended_by_its_handler_and_the_worker_stays():
    with Pool(LocalBackend(make_cancellable), 1) as pool:
        answers = pool.map([0.0, 60.0, 0.0])
        assert next(answers) == (0, "done")
        worker = children()
        time.sleep(0.3)  # the long one runs by now
        begin = time.monotonic()
        pool.cancel([1])
        assert list(answers) == [(2, "done")]
        assert time.monotonic() - begin < 30.0
        assert children() == worker
        assert pool.num_lost == 0


def test_a_job_that_cannot_be_ended_takes_its_worker_along(monkeypatch):
    monkeypatch.setattr("mlgo.pool.pool._CANCEL_GRACE_S", 0.5)
    with Pool(LocalBackend(make_misbehaving), 1) as pool:
        answers = pool.map([2, "sleep", 3])
        assert next(answers) == (0, 4)
        time.sleep(0.2)
        pool.cancel([1])
        assert list(answers) == [(2, 9)]


def test_a_result_that_cannot_be_sent_is_an_error_of_the_handler():
    with Pool(LocalBackend(make_misbehaving), 1) as pool:
        with pytest.raises(TypeError, match="cannot send its result"):
            list(pool.map(["unpicklable"]))
        assert dict(pool.map([2])) == {0: 4}
