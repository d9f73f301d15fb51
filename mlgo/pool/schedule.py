"""Which task a worker does next: its own modules, then new ones, then somebody else's; the largest first.

Pure bookkeeping, no processes.
"""

import heapq
import itertools
from collections.abc import Container, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

JobType = TypeVar("JobType")

WorkerName = Hashable
"""Names one incarnation of a worker; what replaces it has another."""


@dataclass(frozen=True)
class Hint:
    """How a job wants to be placed; none of it changes its result."""

    # Jobs of a group share what a worker keeps warm, such as the response trees of a module; empty for a job that
    # shares nothing.
    group: str = ""
    cost: float = 1.0  # how long it takes, in any unit


@dataclass(eq=False)
class ScheduledJob(Generic[JobType]):
    """A job on its way."""

    position: int
    job: JobType
    hint: Hint = Hint()
    attempts: int = 0  # how many workers have died of it
    # It was sent with others when a worker died or took too long, so it goes in a message of its own.
    alone: bool = False


@dataclass(eq=False)
class _Group(Generic[JobType]):
    """Tasks of one group that wait."""

    name: str
    order: int
    tasks: list[tuple[float, int, ScheduledJob[JobType]]] = field(default_factory=list)
    waiting_cost: float = 0.0


class Schedule(Generic[JobType]):
    """Tasks that wait, handed out one by one.

    A group's home is the worker that took its first task, also in later rounds. A worker takes from its own groups,
    then makes a group its own that has no home, and then steals from the group with most work left. It becomes the
    home of what it steals unless the present one is at work on it: then they share it. Groups with larger tasks come
    first, so that no large one is left for the end.
    """

    def __init__(self) -> None:
        self._homes: dict[str, WorkerName] = {}
        self._current: dict[WorkerName, str] = {}
        self._groups: dict[str, _Group[JobType]] = {}  # that wait
        self._lines: dict[WorkerName | None, list[tuple[float, int, str]]] = {}  # of groups, by their home
        self._num_waiting = 0
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return self._num_waiting

    def clear(self) -> None:
        """Take all tasks out of the line; homes stay."""
        self._groups, self._num_waiting = {}, 0

    def add(self, task: ScheduledJob[JobType]) -> None:
        """Put a task in line."""
        name = task.hint.group
        if (group := self._groups.get(name)) is None:
            group = self._groups[name] = _Group(name, next(self._arrivals))
        heapq.heappush(group.tasks, (-task.hint.cost, task.position, task))
        group.waiting_cost += task.hint.cost
        self._num_waiting += 1
        if group.tasks[0][2] is task:  # the first, or the largest so far
            self._queue(name)

    def take(self, worker: WorkerName) -> ScheduledJob[JobType] | None:
        """Hand out the next task for a worker; None when there is none that it may do."""
        if (group := self._choose(worker)) is None:
            return None
        task = heapq.heappop(group.tasks)[2]
        group.waiting_cost -= task.hint.cost
        self._num_waiting -= 1
        self._current[worker] = task.hint.group
        self._drop_if_empty(group)
        return task

    def leave(self, worker: WorkerName) -> None:
        """Forget a worker that is gone: its groups are everybody's."""
        self._current.pop(worker, None)
        for group in [group for group, home in self._homes.items() if home == worker]:
            del self._homes[group]
            self._queue(group)
        self._lines.pop(worker, None)

    def cancel(self, positions: Container[int]) -> None:
        """Take tasks out of the line that nobody wants any more."""
        for group in list(self._groups.values()):
            group.tasks = [entry for entry in group.tasks if entry[1] not in positions]
            heapq.heapify(group.tasks)
            group.waiting_cost = sum(task.hint.cost for _, _, task in group.tasks)
            self._drop_if_empty(group)
        self._num_waiting = sum(len(group.tasks) for group in self._groups.values())

    def _choose(self, worker: WorkerName) -> _Group[JobType] | None:
        """The group from which a worker takes its next task."""
        if (group := self._first_in_line(worker)) is not None:
            return group
        if (group := self._first_in_line(None)) is not None:
            if group.name:
                self._settle(group.name, worker)
            return group
        if not self._groups:
            return None
        group = max(self._groups.values(), key=lambda one: one.waiting_cost)
        if self._current.get(self._homes[group.name]) != group.name:
            self._settle(group.name, worker)
        return group

    def _first_in_line(self, home: WorkerName | None) -> _Group[JobType] | None:
        """First group in a line that still has tasks and belongs there."""
        line = self._lines.get(home, [])
        while line:
            _, order, name = line[0]
            group = self._groups.get(name)
            if group is not None and group.order == order and self._homes.get(name) == home:
                return group
            heapq.heappop(line)
        return None

    def _settle(self, name: str, worker: WorkerName) -> None:
        """Make a worker the home of a group."""
        self._homes[name] = worker
        self._queue(name)

    def _queue(self, name: str) -> None:
        """Put a group that waits in the line of its home."""
        if (group := self._groups.get(name)) is not None:
            line = self._lines.setdefault(self._homes.get(name), [])
            heapq.heappush(line, (group.tasks[0][0], group.order, name))

    def _drop_if_empty(self, group: _Group[JobType]) -> None:
        if not group.tasks:
            del self._groups[group.name]


AT_ONCE_S = 0.05
"""A worker begins no further job of a message after this time, in seconds."""

MOST = 32
"""Jobs in a message."""

_PARTS = 4
"""A worker is given at most one part in so many of its share of what waits."""


def message_size(wanted: int, waiting: int, num_workers: int, more: bool = False) -> int:
    """Jobs to send."""
    return wanted if more else max(1, min(wanted, waiting // (_PARTS * max(1, num_workers))))


def next_wanted(wanted: int, sent: int, done: int, most: int = MOST) -> int:
    """What a worker can do at once, after one more message."""
    if done < sent:
        return max(1, done)
    return min(most, 2 * wanted) if sent == wanted else wanted


TURN_S = 60.0
"""How long a turn lasts at most, in seconds of all workers."""


@dataclass(eq=False)
class FairShare:
    """The turns of one experiment.

    Learners ask for a batch of compiles and think until they ask for the next. A turn begins when an experiment that
    waits for nothing asks again, and jobs of earlier turns go first. So batches are done one after another, not side by
    side, and experiments that began together soon think at different times. Done side by side, two equal batches
    would both end late and at once, all would think at once, and the workers would idle then.

    What one experiment leaves free, the others use. One that has used all workers for ``turn_s`` goes to the back of
    the line, so that a long evaluation does not keep the others waiting.
    """

    num_workers: int
    # How long a turn lasts at most, in seconds of all workers; 0 serves jobs in the order they come.
    turn_s: float = TURN_S
    _began: float = 0.0
    outstanding: int = 0  # jobs that were sent and have not ended
    _used_s: float = 0.0

    def asks(self, now: float) -> float:
        """One more job is sent; returns the rank of it, and the lowest comes first."""
        if not self.outstanding or self._used_s >= self.turn_s * self.num_workers:
            self._began, self._used_s = now, 0.0
        self.outstanding += 1
        return self._began

    def ends(self, seconds: float) -> None:
        """A job has ended after it has run for so long."""
        self.outstanding -= 1
        self._used_s += seconds
