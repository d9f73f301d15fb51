"""Which task a worker does next, in messages of how many, and whose jobs go first, worked out by hand."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.pool import LocalBackend, Pool, WorkerLost
from mlgo.pool.schedule import MOST, FairShare, Hint, Schedule, ScheduledJob, message_size, next_wanted
from mlgo.pool.worker import Raised, Runner
from tests.pool.handlers import make_misbehaving, make_square


def tasks(*hints: tuple[str, float]) -> list[ScheduledJob[str]]:
    """Tasks numbered from 0, by group and cost."""
    return [ScheduledJob(i, f"{group}{i}", Hint(group, cost)) for i, (group, cost) in enumerate(hints)]


def filled(schedule: Schedule, added: list[ScheduledJob]) -> Schedule:
    for task in added:
        schedule.add(task)
    return schedule


def order(schedule: Schedule, *workers: str) -> list[int | None]:
    """Positions of the tasks that workers take, one after another."""
    taken = [schedule.take(worker) for worker in workers]
    return [None if task is None else task.position for task in taken]


def test_a_group_stays_with_the_worker_that_began_it():
    schedule = filled(Schedule(), tasks(("a", 1), ("b", 1), ("a", 1), ("b", 1)))
    assert order(schedule, "v", "w", "w", "v") == [0, 1, 3, 2]
    filled(schedule, [ScheduledJob(4, "", Hint("a")), ScheduledJob(5, "", Hint("b"))])  # the next generation
    assert order(schedule, "w", "v") == [5, 4]


def test_groups_without_a_home_come_before_anything_is_stolen():
    schedule = filled(Schedule(), tasks(("a", 1), ("a", 1), ("b", 1)))
    assert order(schedule, "v", "w") == [0, 2]


def test_a_thief_takes_from_the_group_with_most_work_left():
    schedule = filled(Schedule(), tasks(("a", 2), ("a", 2), ("b", 1), ("b", 1), ("b", 1), ("b", 1), ("b", 1)))
    assert order(schedule, "v", "w") == [0, 2]  # 2 of a and 4 of b are left
    assert order(schedule, "thief") == [3]
    assert order(schedule, "v") == [1]
    assert order(schedule, "v", "w", "thief", "v") == [4, 5, 6, None]  # w is at work on b, so they share it


def test_a_thief_becomes_the_home_of_what_nobody_works_on():
    schedule = filled(Schedule(), tasks(("a", 1), ("b", 1)))
    assert order(schedule, "v", "v") == [0, 1]  # v is home of both, and at work on b
    filled(schedule, [ScheduledJob(2, "", Hint("a")), ScheduledJob(3, "", Hint("a")), ScheduledJob(4, "", Hint("b"))])
    assert order(schedule, "thief", "v", "thief") == [2, 4, 3]


def test_large_first_within_and_across_groups():
    schedule = filled(Schedule(), tasks(("a", 1), ("b", 3), ("a", 5), ("b", 4)))
    assert order(schedule, "v", "w", "w", "v") == [2, 3, 1, 0]


def test_a_task_without_a_group_is_everybodys():
    schedule = filled(Schedule(), tasks(("", 1), ("", 1), ("", 1)))
    assert order(schedule, "v", "w", "v", "w") == [0, 1, 2, None]


def test_when_a_worker_leaves_its_groups_are_everybodys():
    schedule = filled(Schedule(), tasks(("a", 1), ("a", 1), ("b", 9), ("b", 9), ("b", 9)))
    assert order(schedule, "w", "v") == [2, 0]
    schedule.leave("v")
    assert order(schedule, "x", "w", "w") == [1, 3, 4]  # no theft: that would take from b
    schedule.leave("nobody")
    assert order(schedule, "w") == [None]


def test_cancelled_tasks_are_not_handed_out():
    added = tasks(("a", 1), ("b", 1), ("a", 1), ("b", 1))
    schedule = filled(Schedule(), added)
    schedule.cancel({0, 2})
    assert len(schedule) == 2
    schedule.add(added[0])
    assert sorted(order(schedule, "v", "v", "v")) == [0, 1, 3]
    filled(schedule, added)
    schedule.clear()
    assert order(schedule, "v") == [None]
    assert len(schedule) == 0


_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc "), st.integers(1, 4)),
        st.tuples(st.just("take"), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 3)),
        st.tuples(st.just("cancel"), st.integers(2, 4), st.booleans()),
    ),
    max_size=60,
)


@given(operations=_OPERATIONS)
def test_every_task_is_handed_out_exactly_once(operations):
    schedule: Schedule[None] = Schedule()
    added, waiting, taken, dropped = [], set(), [], []
    for name, *values in operations:
        if name == "add":
            group, cost = values
            added.append(ScheduledJob(len(added), None, Hint(group.strip(), cost)))
            schedule.add(added[-1])
            waiting.add(added[-1].position)
        elif name == "take":
            if (found := schedule.take(values[0])) is not None:
                taken.append(found.position)
                waiting.remove(found.position)
        elif name == "leave":
            schedule.leave(values[0])
        else:
            divisor, again = values
            gone = {position for position in waiting if position % divisor == 0}
            schedule.cancel(gone)
            if again:
                filled(schedule, [added[position] for position in gone])
            else:
                dropped += gone
                waiting -= gone
        assert len(schedule) == len(waiting)
    while (found := schedule.take(0)) is not None:
        taken.append(found.position)
    assert len(schedule) == 0
    assert sorted(taken + dropped) == list(range(len(added)))


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
    sizes = [message_size(8, waiting, 4) for waiting in (1000, 100, 3)]
    assert sizes == [8, 6, 1]  # 6 is a quarter of 25 for each
    assert message_size(8, 3, 4, more=True) == 8
    wanted = [next_wanted(*numbers) for numbers in ((1, 1, 1), (8, 8, 8), (8, 3, 3), (8, 8, 3), (MOST, MOST, MOST))]
    assert wanted == [2, 16, 8, 3, MOST]  # where 3 were sent it was not asked for more
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
    assert (set(results.values()), len(results)) == ({4}, 800)
    assert len(next(message for message in backend.messages if "die" in message)) > 1
    assert ["die"] in backend.messages


@pytest.mark.slow
def test_a_job_beyond_its_deadline_is_found_among_those_of_its_message():
    with Pool(LocalBackend(make_misbehaving), 1, deadline_s=3.0) as pool:
        assert len(dict(pool.map(QUICK))) == 400
        begin = time.monotonic()
        results = dict(pool.map([*QUICK, "sleep", *QUICK]))
        assert time.monotonic() - begin >= 6.0  # in company, and alone
    assert results.pop(400).reason == "it took longer than 3 s"
    assert (set(results.values()), len(results)) == ({4}, 800)


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
    runner.cancel(11)  # before its message comes
    results, left = runner.work_through([(11, "die"), (12, 3)])
    assert "cancelled before it began" in str(results[11].error)
    assert (results[12], left) == (9, [])


def test_a_turn_lasts_until_nothing_is_asked_for():
    turns = FairShare(num_workers=2, turn_s=60.0)
    assert [turns.asks(now) for now in (1.0, 2.0, 3.0)] == [1.0, 1.0, 1.0]
    turns.ends(0.5)
    turns.ends(0.5)
    assert turns.asks(4.0) == 1.0  # one was still outstanding
    turns.ends(0.5)
    turns.ends(0.5)
    assert turns.asks(9.0) == 9.0


def test_who_has_used_all_workers_for_long_enough_goes_to_the_back_of_the_line():
    turns = FairShare(num_workers=2, turn_s=3.0)
    assert [turns.asks(float(now)) for now in range(4)] == [0.0] * 4
    turns.ends(5.9)
    assert turns.asks(5.0) == 0.0  # 5.9 of 6 seconds
    turns.ends(0.2)
    assert turns.asks(6.0) == 6.0
    turns.ends(5.9)  # counts for the new turn
    assert turns.asks(7.0) == 6.0


def test_without_turns_the_order_is_that_of_coming():
    turns = FairShare(num_workers=2, turn_s=0.0)
    assert [turns.asks(now) for now in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
