"""Several jobs in a message: how many, and what becomes of them when something goes wrong in between."""

import time

from hypothesis import given
from hypothesis import strategies as st

from mlgo.pool import LocalBackend, Pool, WorkerLost
from mlgo.pool.backend import Raised
from mlgo.pool.schedule import MOST, message_size, next_wanted
from mlgo.pool.worker import Runner
from tests.pool.handlers import make_misbehaving, make_square

QUICK = [2] * 400
"""Jobs that take no time, so that messages have become long when they are done."""


class Watched(LocalBackend):
    """Local workers, and what they were sent."""

    def __init__(self, make_handler):
        super().__init__(make_handler)
        self.messages = []

    def send(self, worker, jobs):
        self.messages.append([job for _, job in jobs])
        super().send(worker, jobs)


def test_sizes_by_hand():
    assert message_size(8, 1000, 4) == 8
    assert message_size(8, 100, 4) == 6  # a quarter of 25 for each
    assert message_size(8, 3, 4) == 1
    assert message_size(8, 3, 4, more=True) == 8
    assert next_wanted(1, 1, 1) == 2
    assert next_wanted(8, 8, 8) == 16
    assert next_wanted(8, 3, 3) == 8  # it was not asked for more
    assert next_wanted(8, 8, 3) == 3
    assert next_wanted(MOST, MOST, MOST) == MOST
    assert next_wanted(8, 8, 8, most=1) == 1


@given(st.integers(1, MOST), st.integers(0, 100_000), st.integers(1, 10_000))
def test_a_message_has_a_job_and_leaves_most_of_what_waits_to_the_others(wanted, waiting, workers):
    size = message_size(wanted, waiting, workers)
    assert 1 <= size <= wanted
    assert size == 1 or 4 * size * workers <= waiting


def test_messages_grow_while_jobs_are_quick_and_are_short_in_the_end():
    backend = Watched(make_square)
    with Pool(backend, 1) as pool:
        assert dict(pool.map(QUICK)) == dict.fromkeys(range(400), 4)
    sizes = [len(message) for message in backend.messages]
    assert sizes[:5] == [1, 2, 4, 8, 16]
    assert max(sizes) == MOST
    assert sizes[-1] == 1
    assert sum(sizes) == 400


def test_what_a_long_job_keeps_waiting_is_done_by_others():
    backend = Watched(make_misbehaving)
    with Pool(backend, 2) as pool:
        assert len(dict(pool.map(QUICK))) == 400
        first = len(backend.messages)
        slow = range(50, 400, 50)
        jobs = ["slow" if i in slow else i for i in range(400)]
        results = dict(pool.map(jobs))
    assert results == {i: "slow" if i in slow else i * i for i in range(400)}
    sent = backend.messages[first:]
    behind = [job for message in sent if "slow" in message for job in message[message.index("slow") + 1 :]]
    assert behind
    numbers = [job for job in behind if job != "slow"]
    assert all(sum(job in message for message in sent) >= 2 for job in numbers)  # left, and sent once more


def test_a_job_that_kills_is_found_among_those_of_its_message():
    backend = Watched(make_misbehaving)
    with Pool(backend, 1) as pool:
        assert len(dict(pool.map(QUICK))) == 400
        results = dict(pool.map([*QUICK, "die", *QUICK]))
        assert pool.num_lost == 2  # in company, and alone
    assert isinstance(results.pop(400), WorkerLost)
    assert set(results.values()) == {4}
    assert len(results) == 800
    assert len(next(message for message in backend.messages if "die" in message)) > 1
    assert ["die"] in backend.messages


def test_a_job_beyond_its_deadline_is_found_among_those_of_its_message():
    with Pool(LocalBackend(make_misbehaving), 1, deadline_s=1.5) as pool:
        assert len(dict(pool.map(QUICK))) == 400
        begin = time.monotonic()
        results = dict(pool.map([*QUICK, "sleep", *QUICK]))
        assert 3.0 <= time.monotonic() - begin < 30.0
    assert results.pop(400).reason == "it took longer than 1.5 s"
    assert set(results.values()) == {4}
    assert len(results) == 800


def test_unwanted_jobs_of_a_message_are_left_and_its_wanted_ones_are_done():
    with Pool(LocalBackend(make_misbehaving), 1) as pool:
        assert len(dict(pool.map(QUICK))) == 400
        answers = pool.map(["slow", *["slow pid"] * 400])
        assert next(answers) == (0, "slow")
        pool.cancel(range(1, 390))
        assert sorted(position for position, _ in answers) == list(range(390, 401))
        assert pool.num_lost == 0


def test_what_a_worker_does_with_a_message():
    runner = Runner(make_misbehaving)
    assert runner.work_through([(1, 3), (2, 4)]) == ({1: 9, 2: 16}, [])
    results, left = runner.work_through([(3, "slow"), (4, 5), (5, 6)])
    assert (results, left) == ({3: "slow"}, [4, 5])
    results, left = runner.work_through([(6, "raise"), (7, 5)])
    assert isinstance(results[6], Raised)
    assert (results[7], left) == (25, [])
    runner.cancel(9)
    assert runner.work_through([(8, 1), (9, 2), (10, 3)]) == ({8: 1, 10: 9}, [9])
    assert runner.work_through([(9, 2)]) == ({9: 4}, [])  # it was left once


def test_a_job_that_was_cancelled_before_its_message_came_is_not_done():
    runner = Runner(make_misbehaving)
    runner.cancel(1)
    results, left = runner.work_through([(1, "die"), (2, 3)])
    assert "cancelled before it began" in str(results[1].error)
    assert (results[2], left) == (9, [])
