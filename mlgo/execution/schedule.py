"""Which task a worker does next: its own modules, then new ones, then somebody else's; the largest first.

Pure bookkeeping, no processes: every pool decides by it, and so does the simulation of clusters.
"""

import heapq
import itertools
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

JobType = TypeVar("JobType")

WorkerName = Hashable
"""Names one incarnation of a worker; what replaces it has another."""


@dataclass(frozen=True)
class Hint:
    """How a job wants to be placed; none of it changes its result.

    Attributes:
        group: jobs of a group share what a worker keeps warm, such as the decision trees of a module; empty for a job
            that shares nothing.
        cost: how long it takes, in any unit.
        priority: greater is done earlier, whatever its group.
    """

    group: str = ""
    cost: float = 1.0
    priority: int = 0


_MIN_STALE = 1000
"""Outdated places in a heap that are not worth a new one."""


@dataclass(eq=False)
class Task(Generic[JobType]):
    """A job on its way.

    Attributes:
        position: number of the job.
        job: what to do.
        hint: where it wants to be done.
        attempts: how many workers have died of it.
        alone: it was sent with others when a worker died or took too long, so it goes in a message of its own.
    """

    position: int
    job: JobType
    hint: Hint = Hint()
    attempts: int = 0
    alone: bool = False


@dataclass(eq=False)
class _Group(Generic[JobType]):
    name: str
    order: int
    tasks: list[tuple[float, int, Task[JobType]]] = field(default_factory=list)
    waiting_cost: float = 0.0
    entry: int = -1  # its one valid place in the heap of the fullest


class Schedule(Generic[JobType]):
    """Tasks that wait, handed out one by one.

    A group's home is the worker that took its first task, also in later rounds. A worker takes from its own groups,
    then makes a group its own that has no home, and then steals from the group with most work left. It becomes the
    home of what it steals unless the present one is at work on it: then they share it.

    Args:
        affinity: groups have homes; otherwise anybody takes the next task.
        stealing: a worker without work takes that of others.
        large_first: groups with larger tasks come first, so that no large one is left for the end.
    """

    def __init__(self, *, affinity: bool = True, stealing: bool = True, large_first: bool = True) -> None:
        self._affinity, self._stealing, self._large_first = affinity, stealing, large_first
        self._homes: dict[str, WorkerName] = {}
        self._current: dict[WorkerName, str] = {}
        self._rounds: dict[int, _Round[JobType]] = {}
        self._num_waiting = 0
        self._arrivals = itertools.count()
        self.num_stolen = 0
        """Tasks that were taken from another worker's group."""

    def __len__(self) -> int:
        return self._num_waiting

    def home(self, group: str) -> WorkerName | None:
        """Worker that keeps a group warm."""
        return self._homes.get(group)

    def add(self, task: Task[JobType]) -> None:
        """Put a task in line."""
        self._round(task.hint.priority).add(task)
        self._num_waiting += 1

    def take(self, worker: WorkerName) -> Task[JobType] | None:
        """Hand out the next task for a worker; None when there is none that it may do."""
        for priority in sorted(self._rounds, reverse=True):
            found = self._rounds[priority].take(worker)
            if found is not None:
                self._num_waiting -= 1
                self._current[worker] = found.hint.group
                if not self._rounds[priority].waits:
                    del self._rounds[priority]
                return found
        return None

    def leave(self, worker: WorkerName) -> None:
        """Forget a worker that is gone: its groups are everybody's."""
        self._current.pop(worker, None)
        orphans = [group for group, home in self._homes.items() if home == worker]
        for group in orphans:
            del self._homes[group]
        for one in self._rounds.values():
            one.release(worker, orphans)

    def cancel(self, unwanted: Callable[[Task[JobType]], bool]) -> list[Task[JobType]]:
        """Take tasks out of the line that nobody wants any more, and return them."""
        dropped = [task for one in self._rounds.values() for task in one.cancel(unwanted)]
        self._num_waiting -= len(dropped)
        self._rounds = {priority: one for priority, one in self._rounds.items() if one.waits}
        return dropped

    def _settle(self, group: str, worker: WorkerName) -> None:
        """Make a worker the home of a group, at all priorities."""
        self._homes[group] = worker
        for one in self._rounds.values():
            one.requeue(group)

    def _round(self, priority: int) -> "_Round[JobType]":
        if priority not in self._rounds:
            self._rounds[priority] = _Round(self)
        return self._rounds[priority]


class _Round(Generic[JobType]):
    """Tasks of one priority."""

    def __init__(self, schedule: Schedule[JobType]) -> None:
        self._schedule = schedule
        self._groups: dict[str, _Group[JobType]] = {}
        self._own: dict[WorkerName, list[tuple[float, int, str]]] = {}
        self._homeless: list[tuple[float, int, str]] = []
        self._fullest: list[tuple[float, int, str]] = []  # work left is an upper bound, corrected at the top

    @property
    def waits(self) -> bool:
        """Whether any task is left."""
        return bool(self._groups)

    def add(self, task: Task[JobType]) -> None:
        schedule, name = self._schedule, task.hint.group if self._schedule._affinity else ""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(name, next(schedule._arrivals))
        heapq.heappush(group.tasks, (self._rank(task), task.position, task))
        group.waiting_cost += task.hint.cost
        if group.tasks[0][2] is task:  # the first, or the largest so far
            self._queue(group)
        group.entry = next(schedule._arrivals)
        heapq.heappush(self._fullest, (-group.waiting_cost, group.entry, name))
        if len(self._fullest) > 2 * len(self._groups) + _MIN_STALE:
            self._fullest = [(-one.waiting_cost, one.entry, one.name) for one in self._groups.values()]
            heapq.heapify(self._fullest)

    def take(self, worker: WorkerName) -> Task[JobType] | None:
        schedule = self._schedule
        group = self._first_of(self._own.get(worker, []), worker)
        if group is None:
            group = self._first_of(self._homeless, None)
            if group is not None and group.name:
                schedule._settle(group.name, worker)
        if group is None and schedule._stealing and (group := self._fullest_group()) is not None:
            schedule.num_stolen += 1
            home = schedule._homes[group.name]
            if schedule._current.get(home) != group.name:
                schedule._settle(group.name, worker)
        return None if group is None else self._pop(group)

    def _pop(self, group: _Group[JobType]) -> Task[JobType]:
        task = heapq.heappop(group.tasks)[2]
        group.waiting_cost -= task.hint.cost
        if not group.tasks:
            del self._groups[group.name]
        return task

    def release(self, worker: WorkerName, orphans: Collection[str]) -> None:
        self._own.pop(worker, None)
        for name in orphans:
            self.requeue(name)

    def requeue(self, name: str) -> None:
        """Put a group, if it waits here, in the line of its new home."""
        if name in self._groups:
            self._queue(self._groups[name])

    def cancel(self, unwanted: Callable[[Task[JobType]], bool]) -> list[Task[JobType]]:
        dropped = []
        for group in list(self._groups.values()):
            kept = [entry for entry in group.tasks if not unwanted(entry[2])]
            dropped += [entry[2] for entry in group.tasks if unwanted(entry[2])]
            heapq.heapify(kept)
            group.tasks = kept
            group.waiting_cost = sum(task.hint.cost for _, _, task in kept)
            if not kept:
                del self._groups[group.name]
        return dropped

    def _rank(self, task: Task[JobType]) -> float:
        return -task.hint.cost if self._schedule._large_first else 0.0

    def _queue(self, group: _Group[JobType]) -> None:
        """Put a group in the line of its home."""
        home = self._schedule._homes.get(group.name)
        line = self._homeless if home is None else self._own.setdefault(home, [])
        heapq.heappush(line, (group.tasks[0][0], group.order, group.name))

    def _first_of(self, line: list[tuple[float, int, str]], home: WorkerName | None) -> _Group[JobType] | None:
        """First group in a line that still has tasks and belongs there."""
        while line:
            _, order, name = line[0]
            group = self._groups.get(name)
            if group is not None and group.order == order and self._schedule._homes.get(name) == home:
                return group
            heapq.heappop(line)
        return None

    def _fullest_group(self) -> _Group[JobType] | None:
        """Group with most work left."""
        while self._fullest:
            bound, entry, name = self._fullest[0]
            group = self._groups.get(name)
            if group is None or group.entry != entry:
                heapq.heappop(self._fullest)
            elif -bound > group.waiting_cost:
                heapq.heapreplace(self._fullest, (-group.waiting_cost, entry, name))
            else:
                return group
        return None
