"""Jobs to workers and back: whatever dies, hangs or is no longer wanted."""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

from mlgo.workers.crew import Answered, Crew, Gone, Raised, Started
from mlgo.workers.schedule import Hint, Schedule, Task, WorkerName

JobType = TypeVar("JobType")
ResultType = TypeVar("ResultType")

LOOKAHEAD = 10_000
"""Jobs that may wait at once. More of them are taken from the caller as others are done, so memory is bounded."""

_CANCEL_GRACE_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerLost:
    """Stands for the result of a job that no worker survived, or that took too long.

    Attributes:
        exit_code: of the last worker's process; None where it is not known.
        reason: what is known of its end.
        attempts: workers that died doing it.
    """

    exit_code: int | None
    reason: str = ""
    attempts: int = 1

    def __str__(self) -> str:
        what = self.reason or f"its worker died with exit code {self.exit_code}"
        return what if self.attempts == 1 else f"{what}, as did {self.attempts - 1} before it"


@dataclass(eq=False)
class _Held(Generic[JobType]):
    """What a worker holds: the first of them runs, the others wait at its side."""

    tasks: deque[tuple[int, Task[JobType]]] = field(default_factory=deque)
    since: float = 0.0
    cancelled_at: float | None = None


class Pool(Generic[JobType, ResultType]):
    """Workers of any kind behind one interface.

    A worker that dies is replaced, and what it held is done elsewhere. Results depend on the jobs alone, not on the
    number of workers, their kind or the order in which they finish, as long as handlers are pure functions.

    Attributes:
        num_lost: workers that have died so far.

    Args:
        crew: starts and reaches the workers.
        num_workers: how many.
        retries: how often a job whose worker died is tried again.
        deadline_s: time that a job may take; its worker is then ended and replaced, and the job is not tried again.
        schedule: decides which worker does what.
    """

    def __init__(
        self,
        crew: Crew,
        num_workers: int,
        *,
        retries: int = 0,
        deadline_s: float | None = None,
        schedule: Schedule[JobType] | None = None,
    ) -> None:
        self._crew, self._retries, self._deadline_s = crew, retries, deadline_s
        self._schedule: Schedule[JobType] = schedule if schedule is not None else Schedule()
        self._held: dict[WorkerName, _Held[JobType]] = {crew.hire(): _Held() for _ in range(max(1, num_workers))}
        self._tells_start: bool = crew.tells_start
        self._unwanted: set[int] = set()
        self._tickets = 0
        self.num_lost = 0

    @property
    def num_workers(self) -> int:
        """Workers in the pool."""
        return len(self._held)

    def map(
        self,
        jobs: Iterable[JobType],
        hint: Callable[[JobType], Hint] = lambda job: Hint(),
        lookahead: int = LOOKAHEAD,
    ) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        """Do jobs and yield ``(position, result)`` as they end. A caller that stops early cancels the rest.

        Args:
            jobs: taken from the caller as room is made, see ``lookahead``.
            hint: where and when a job is best done.
            lookahead: jobs that may wait for a worker at once.

        Raises:
            Exception: whatever a handler raised; such an exception is a defect, not a failed compile.
            WorkerError: no worker can be had.
        """
        incoming = enumerate(jobs)
        self._unwanted = set()
        exhausted = False
        try:
            while True:
                while not exhausted and len(self._schedule) < lookahead:
                    following = next(incoming, None)
                    if following is None:
                        exhausted = True
                    else:
                        position, job = following
                        self._schedule.add(Task(position, job, hint(job)))
                self._hand_out()
                if not len(self._schedule) and not any(held.tasks for held in self._held.values()):
                    return
                for event in self._crew.wait(self._seconds_left()):
                    if isinstance(event, Started):
                        self._held[event.worker].since = time.monotonic()
                    elif isinstance(event, Gone):
                        yield from self._mourn(event)
                    else:
                        yield from self._take_back(event)
                yield from self._end_overdue()
        finally:
            self._schedule.cancel(lambda task: True)
            for worker in [worker for worker, held in self._held.items() if held.tasks]:
                self._replace(worker)  # their answers must not meet the next jobs
            self._crew.rest()

    def cancel(self, positions: Collection[int]) -> None:
        """Drop jobs of the present `map` that are no longer needed: they yield nothing any more.

        Those that wait are never started. One that runs is ended by its handler's ``cancel``, so that its worker stays;
        a worker whose job goes on nevertheless is replaced.
        """
        unwanted = set(positions)
        self._unwanted |= unwanted
        self._schedule.cancel(lambda task: task.position in unwanted)
        for worker, held in self._held.items():
            if held.tasks and held.tasks[0][1].position in unwanted:
                self._cancel_present(worker, held)

    def close(self) -> None:
        """Stop all workers and whatever they run."""
        self._crew.close()

    def _hand_out(self) -> None:
        """Fill workers, all to the same depth, so that none waits while another has two."""
        for depth in range(1, self._crew.depth + 1):
            for worker, held in self._held.items():
                if len(held.tasks) < depth and self._crew.ready(worker):
                    task = self._schedule.take(worker)
                    if task is not None:
                        self._send(worker, held, task)

    def _send(self, worker: WorkerName, held: _Held[JobType], task: Task[JobType]) -> None:
        if not held.tasks:
            held.since = self._start_of_next()
        self._tickets += 1
        held.tasks.append((self._tickets, task))
        self._crew.send(worker, self._tickets, task.job)

    def _take_back(self, event: Answered) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        held = self._held[event.worker]
        at = next(i for i, (ticket, _) in enumerate(held.tasks) if ticket == event.ticket)
        _, task = held.tasks[at]
        del held.tasks[at]
        if at == 0:  # answers of jobs that were done at once may overtake each other on their way
            held.since, held.cancelled_at = self._start_of_next(), None
            if held.tasks and held.tasks[0][1].position in self._unwanted:
                self._cancel_present(event.worker, held)
        if task.position in self._unwanted:
            return
        if isinstance(event.result, Raised):
            raise event.result.error
        yield task.position, event.result

    def _cancel_present(self, worker: WorkerName, held: _Held[JobType]) -> None:
        held.cancelled_at = time.monotonic()
        self._crew.cancel(worker, held.tasks[0][0])

    def _mourn(self, event: Gone) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        """Replace a dead worker; the job that it was doing is tried again, those that waited at its side are as new."""
        self.num_lost += 1
        _log.warning("worker %s is lost: %s", event.worker, event.reason or f"exit code {event.exit_code}")
        held = self._held[event.worker]
        if held.tasks:
            held.tasks[0][1].attempts += 1
        yield from self._put_back(self._replace(event.worker), event.exit_code, event.reason)

    def _put_back(
        self, tasks: Iterable[tuple[int, Task[JobType]]], exit_code: int | None, reason: str
    ) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        for _, task in tasks:
            if task.position in self._unwanted:
                continue
            if task.attempts > self._retries:
                yield task.position, WorkerLost(exit_code, reason, task.attempts)
            else:
                self._schedule.add(task)

    def _end_overdue(self) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        now = time.monotonic()
        for worker, held in list(self._held.items()):
            if not held.tasks or now < self._due(held):
                continue
            _, task = held.tasks[0]
            waiting = list(self._replace(worker))[1:]
            if held.cancelled_at is None:
                yield task.position, WorkerLost(None, f"it took longer than {self._deadline_s:g} s")
            yield from self._put_back(waiting, None, "")

    def _start_of_next(self) -> float:
        """Moment at which a worker begins what it now holds; none yet if it may have to wait for others."""
        return float("inf") if self._tells_start else time.monotonic()

    def _due(self, held: _Held[JobType]) -> float:
        """Moment at which a worker is given up."""
        if held.cancelled_at is not None:
            return held.cancelled_at + _CANCEL_GRACE_S
        return held.since + self._deadline_s if self._deadline_s is not None else float("inf")

    def _seconds_left(self) -> float | None:
        due = min((self._due(held) for held in self._held.values() if held.tasks), default=float("inf"))
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def _replace(self, worker: WorkerName) -> deque[tuple[int, Task[JobType]]]:
        """End a worker, or bury a dead one, and make a place for another; returns what it held."""
        held = self._held.pop(worker)
        self._schedule.leave(worker)
        self._crew.dismiss(worker)
        self._held[self._crew.hire()] = _Held()
        return held.tasks

    def __enter__(self) -> "Pool[JobType, ResultType]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
