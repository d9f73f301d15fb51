"""Which task a worker does next, worked out by hand; and that every task is handed out exactly once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.pool.schedule import Hint, Schedule, ScheduledJob


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
    assert (schedule.home("a"), schedule.home("b"), schedule.num_stolen) == ("v", "w", 0)
    filled(schedule, [ScheduledJob(4, "", Hint("a")), ScheduledJob(5, "", Hint("b"))])  # the next generation
    assert order(schedule, "w", "v") == [5, 4]


def test_groups_without_a_home_come_before_anything_is_stolen():
    schedule = filled(Schedule(), tasks(("a", 1), ("a", 1), ("b", 1)))
    assert order(schedule, "v", "w") == [0, 2]
    assert schedule.num_stolen == 0


def test_a_thief_takes_from_the_group_with_most_work_left():
    schedule = filled(Schedule(), tasks(("a", 2), ("a", 2), ("b", 1), ("b", 1), ("b", 1), ("b", 1), ("b", 1)))
    assert order(schedule, "v", "w") == [0, 2]  # 2 of a and 4 of b are left
    assert order(schedule, "thief") == [3]
    assert schedule.num_stolen == 1
    assert schedule.home("b") == "w"  # which is at work on it, so they share it
    assert order(schedule, "v") == [1]
    assert order(schedule, "v", "w", "thief", "v") == [4, 5, 6, None]


def test_a_thief_becomes_the_home_of_what_nobody_works_on():
    schedule = filled(Schedule(), tasks(("a", 1), ("b", 1)))
    assert order(schedule, "v", "v") == [0, 1]  # v is home of both, and at work on b
    filled(schedule, [ScheduledJob(2, "", Hint("a")), ScheduledJob(3, "", Hint("a"))])
    assert order(schedule, "thief") == [2]
    assert schedule.home("a") == "thief"
    assert order(schedule, "thief") == [3]
    assert schedule.num_stolen == 1  # the second was its own by then


def test_without_stealing_a_worker_goes_idle():
    schedule = filled(Schedule(stealing=False), tasks(("a", 1), ("a", 1)))
    assert order(schedule, "v", "w", "v") == [0, None, 1]


def test_large_first_within_and_across_groups():
    schedule = filled(Schedule(), tasks(("a", 1), ("b", 3), ("a", 5), ("b", 4)))
    assert order(schedule, "v", "w", "w", "v") == [2, 3, 1, 0]


def test_otherwise_in_the_order_of_arrival():
    schedule = filled(Schedule(large_first=False), tasks(("a", 1), ("b", 3), ("a", 5), ("b", 4)))
    assert order(schedule, "v", "w", "w", "v") == [0, 1, 3, 2]


@pytest.mark.parametrize(("large_first", "expected"), [(False, [0, 1, 2, 3]), (True, [3, 1, 2, 0])])
def test_without_affinity_groups_do_not_matter(large_first, expected):
    schedule = filled(Schedule(affinity=False, large_first=large_first), tasks(("a", 1), ("b", 3), ("a", 2), ("b", 4)))
    assert order(schedule, "v", "w", "v", "w") == expected
    assert schedule.home("a") is None


def test_a_task_without_a_group_is_everybodys():
    schedule = filled(Schedule(), tasks(("", 1), ("", 1), ("", 1)))
    assert order(schedule, "v", "w", "v", "w") == [0, 1, 2, None]
    assert schedule.home("") is None


def test_when_a_worker_leaves_its_groups_are_everybodys():
    schedule = filled(Schedule(stealing=False), tasks(("a", 1), ("a", 1), ("a", 1)))
    assert order(schedule, "v", "w") == [0, None]
    schedule.leave("v")
    assert schedule.home("a") is None
    assert order(schedule, "w", "v") == [1, None]
    schedule.leave("nobody")
    assert order(schedule, "w") == [2]


def test_cancelled_tasks_are_returned_and_not_handed_out():
    schedule = filled(Schedule(), tasks(("a", 1), ("b", 1), ("a", 1), ("b", 1)))
    dropped = schedule.cancel(lambda task: task.hint.group == "a")
    assert sorted(task.position for task in dropped) == [0, 2]
    assert len(schedule) == 2
    schedule.add(dropped[0])
    assert sorted(order(schedule, "v", "v", "v")) == sorted([dropped[0].position, 1, 3])
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


@pytest.mark.parametrize("affinity", [False, True])
@pytest.mark.parametrize("stealing", [False, True])
@pytest.mark.parametrize("large_first", [False, True])
@given(operations=_OPERATIONS)
def test_every_task_is_handed_out_exactly_once(affinity, stealing, large_first, operations):
    schedule: Schedule[None] = Schedule(affinity=affinity, stealing=stealing, large_first=large_first)
    num_added, waiting, taken, dropped = 0, set(), [], []
    for name, *values in operations:
        if name == "add":
            group, cost = values
            schedule.add(ScheduledJob(num_added, None, Hint(group.strip(), cost)))
            waiting.add(num_added)
            num_added += 1
        elif name == "take":
            found = schedule.take(values[0])
            if found is not None:
                taken.append(found.position)
                waiting.remove(found.position)
        elif name == "leave":
            schedule.leave(values[0])
        else:
            divisor, again = values
            gone = schedule.cancel(lambda task, divisor=divisor: task.position % divisor == 0)
            assert {task.position for task in gone} == {position for position in waiting if position % divisor == 0}
            waiting -= {task.position for task in gone}
            for task in gone:  # some come back
                if again:
                    schedule.add(task)
                    waiting.add(task.position)
                else:
                    dropped.append(task.position)
        assert len(schedule) == len(waiting)
    workers = range(4)
    while any(found := [schedule.take(worker) for worker in workers]):  # all of them are asked, so nothing may be left
        taken += [task.position for task in found if task is not None]
    assert len(schedule) == 0
    assert sorted(taken + dropped) == list(range(num_added))
