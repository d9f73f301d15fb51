"""Jobs to workers and back: whatever dies, hangs or is no longer wanted."""

import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from mlgo.base.scratch import Closing
from mlgo.pool.schedule import AT_ONCE_S, MOST, Hint, Schedule, ScheduledJob, WorkerName, message_size, next_wanted
from mlgo.pool.worker import Message, Raised

JobType = TypeVar("JobType")
ResultType = TypeVar("ResultType")

LOOKAHEAD = 10_000
"""Jobs that may wait at once. More of them are taken from the caller as others are done, so memory is bounded."""

_CANCEL_GRACE_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answered:
    """A worker has answered a message."""

    worker: WorkerName
    results: Mapping[int, Any]  # by the ticket of the job, what the handler returned, or `Raised`; at least one
    left: Sequence[int] = ()  # tickets of jobs that were not begun, since others took long; somebody else may do them


@dataclass(frozen=True)
class Gone:
    """A worker has died, with all messages that it held."""

    worker: WorkerName
    exit_code: int | None = None  # of its process, negative for a signal; None where it is not known
    reason: str = ""
    overdue: bool = False  # it was ended since the first of these messages took too long


Event = Answered | Gone


class Backend(Protocol):
    """Workers of one kind: how they are started, reached and ended, wherever they run.

    A worker is whoever is sent jobs under one name: it starts with the first, and does them in the order in which they
    were sent.
    """

    depth: int = 1  # messages that a worker should hold, the one at work included; more than one hides the way to it
    most: int = MOST

    def ready(self, worker: WorkerName) -> bool:
        """Whether jobs sent now would be started soon; False while a machine for it is being found."""
        return True

    def send(self, worker: WorkerName, jobs: Message) -> None:
        """Hand over jobs. A worker that cannot be reached is reported by `wait`."""
        ...

    def cancel(self, worker: WorkerName, ticket: int) -> None:
        """Have a job ended soon, if it is being done and the handler can end it, or left; returns at once."""
        return

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        """Events since the last call; waits for the first, at most so many seconds, after which there are none."""
        ...

    def idle(self) -> None:
        """All jobs are done, and it is not known when others come; what workers keep warm may stay."""
        return

    def kill(self, worker: WorkerName) -> None:
        """End a worker and whatever it runs, without waiting for its job; no events of it come any more."""
        ...

    def close(self) -> None:
        """End all workers and remove what they leave behind."""
        ...


@dataclass(frozen=True)
class WorkerLost:
    """Stands for the result of a job that no worker survived, or that took too long."""

    exit_code: int | None  # of the last worker's process, where it is known
    reason: str = ""
    attempts: int = 1

    def __str__(self) -> str:
        what = self.reason or f"its worker died with exit code {self.exit_code}"
        return what if self.attempts == 1 else f"{what}, as did {self.attempts - 1} before it"


_Sent = dict[int, ScheduledJob[JobType]]
"""Jobs of one message by their tickets."""


@dataclass(eq=False)
class _Held(Generic[JobType]):
    """What a worker holds: the first message is being worked through, the others wait at its side."""

    messages: deque[_Sent[JobType]] = field(default_factory=deque)
    wanted: int = 1
    since: float = 0.0
    cancelled_at: float | None = None


class Pool(Closing, Generic[JobType, ResultType]):
    """Workers of any kind behind one interface.

    A worker that dies is replaced, and what it held is done elsewhere. Results depend on the jobs alone, not on the
    number of workers, their kind or the order in which they finish, as long as handlers are pure functions.

    Args:
        retries: how often a job whose worker died is tried again.
        deadline_s: time that a job may take; its worker is then ended and replaced, and the job is not tried again.
    """

    def __init__(
        self, backend: Backend, num_workers: int, *, retries: int = 0, deadline_s: float | None = None
    ) -> None:
        self._backend, self._retries, self._deadline_s = backend, retries, deadline_s
        self._schedule: Schedule[JobType] = Schedule()
        self._unwanted: set[int] = set()
        self._more = False  # jobs to take from the caller
        self._tickets = self.num_lost = 0
        self._names = itertools.count(1)  # a worker that takes another's place has another name
        names = itertools.islice(self._names, max(1, num_workers))
        self._held: dict[WorkerName, _Held[JobType]] = {name: _Held() for name in names}

    @property
    def num_workers(self) -> int:
        return len(self._held)

    def map(
        self, jobs: Iterable[JobType], hint: Callable[[JobType], Hint] = lambda job: Hint(), lookahead: int = LOOKAHEAD
    ) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        """Do jobs and yield ``(position, result)`` as they end. A caller that stops early cancels the rest.

        Jobs are taken from the caller as room is made for them: at most ``lookahead`` wait for a worker at once.
        """
        incoming = enumerate(jobs)
        self._unwanted, self._more = set(), True
        try:
            while True:
                while self._more and len(self._schedule) < lookahead:
                    following = next(incoming, None)
                    if following is None:
                        self._more = False
                    else:
                        position, job = following
                        self._schedule.add(ScheduledJob(position, job, hint(job)))
                self._dispatch()
                if not len(self._schedule) and not any(held.messages for held in self._held.values()):
                    return
                for event in self._backend.wait(self._seconds_left()):
                    yield from self._on_death(event) if isinstance(event, Gone) else self._on_answer(event)
                for worker, held in list(self._held.items()):
                    if time.monotonic() >= self._due(held):
                        yield from self._give_up(worker)
        finally:
            self._schedule.clear()
            for worker in [worker for worker, held in self._held.items() if held.messages]:
                self._replace(worker)  # their answers must not meet the next jobs
            self._backend.idle()

    def cancel(self, positions: Collection[int]) -> None:
        """Drop jobs of the present `map` that are no longer needed: they yield nothing any more.

        Those that wait are never started. One that runs is ended by its handler's ``cancel``, so that its worker stays;
        a worker whose jobs go on nevertheless is replaced.
        """
        unwanted = set(positions)
        self._unwanted |= unwanted
        self._schedule.cancel(unwanted)
        for worker, held in self._held.items():
            self._cancel_first(worker, held, unwanted)

    def close(self) -> None:
        """Stop all workers and whatever they run."""
        self._backend.close()

    def _dispatch(self) -> None:
        """Fill workers, all to the same depth, so that none waits while another has two messages."""
        for depth in range(self._backend.depth):
            for worker, held in self._held.items():
                if not len(self._schedule):
                    return
                if len(held.messages) == depth and self._backend.ready(worker):
                    self._fill(worker, held)

    def _fill(self, worker: WorkerName, held: _Held[JobType]) -> None:
        """Send a worker one message, unless there is nothing for it."""
        sent: _Sent[JobType] = {}
        for _ in range(message_size(held.wanted, len(self._schedule), len(self._held), self._more)):
            task = self._schedule.take(worker)
            if task is None:
                break
            self._tickets += 1
            if task.alone:
                self._send(worker, held, {self._tickets: task})
                break
            sent[self._tickets] = task
        if sent:
            self._send(worker, held, sent)

    def _send(self, worker: WorkerName, held: _Held[JobType], sent: _Sent[JobType]) -> None:
        if not held.messages:
            held.since = time.monotonic()
        held.messages.append(sent)
        self._backend.send(worker, [(ticket, task.job) for ticket, task in sent.items()])

    def _on_answer(self, event: Answered) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        worker, held = event.worker, self._held[event.worker]
        at = next(i for i, sent in enumerate(held.messages) if sent.keys() & event.results.keys())
        sent = held.messages[at]
        del held.messages[at]
        held.wanted = next_wanted(held.wanted, len(sent), len(event.results), self._backend.most)
        if at == 0:  # answers of jobs that were done at once may overtake each other on their way
            held.since, held.cancelled_at = time.monotonic(), None
            self._cancel_first(worker, held, self._unwanted)
        yield from self._put_back(sent[ticket] for ticket in event.left)
        for ticket, result in event.results.items():
            position = sent[ticket].position
            if position in self._unwanted:
                continue
            if isinstance(result, Raised):
                raise result.error
            yield position, result

    def _cancel_first(self, worker: WorkerName, held: _Held[JobType], unwanted: Collection[int]) -> None:
        """Have unwanted jobs of the first message ended or left; a worker that holds no others must come to an end."""
        if not held.messages or not unwanted:
            return
        first = held.messages[0]
        for ticket, task in first.items():
            if task.position in unwanted:
                self._backend.cancel(worker, ticket)
        if held.cancelled_at is None and all(task.position in self._unwanted for task in first.values()):
            held.cancelled_at = time.monotonic()

    def _on_death(self, event: Gone) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        """Replace a dead worker; the job that it was doing is tried again, those that waited at its side are as new."""
        if event.overdue:
            yield from self._give_up(event.worker, event.reason)
            return
        self.num_lost += 1
        _log.warning("worker %s is lost: %s", event.worker, event.reason or f"exit code {event.exit_code}")
        messages = self._replace(event.worker)
        if messages and (culprit := _culprit(messages[0])) is not None:
            culprit.attempts += 1
        yield from self._put_back((task for sent in messages for task in sent.values()), event.exit_code, event.reason)

    def _put_back(
        self, tasks: Iterable[ScheduledJob[JobType]], exit_code: int | None = None, reason: str = ""
    ) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        for task in tasks:
            if task.position in self._unwanted:
                continue
            if task.attempts > self._retries:
                yield task.position, WorkerLost(exit_code, reason, task.attempts)
            else:
                self._schedule.add(task)

    def _give_up(self, worker: WorkerName, reason: str = "") -> Iterator[tuple[int, ResultType | WorkerLost]]:
        """Replace a worker that takes too long; its job is not tried again, unless nobody wants it anyway."""
        cancelled = self._held[worker].cancelled_at is not None
        messages = self._replace(worker)
        if not cancelled and (culprit := _culprit(messages[0])) is not None:
            messages.popleft()
            yield culprit.position, WorkerLost(None, reason or f"it took longer than {self._deadline_s:g} s")
        yield from self._put_back(task for sent in messages for task in sent.values())

    def _due(self, held: _Held[JobType]) -> float:
        """Moment at which a worker is given up."""
        if held.messages and held.cancelled_at is not None:
            return held.cancelled_at + _CANCEL_GRACE_S
        if not held.messages or self._deadline_s is None:
            return math.inf
        return held.since + self._deadline_s + (AT_ONCE_S if len(held.messages[0]) > 1 else 0.0)

    def _seconds_left(self) -> float | None:
        due = min(map(self._due, self._held.values()))
        return None if due == math.inf else max(0.0, due - time.monotonic())

    def _replace(self, worker: WorkerName) -> deque[_Sent[JobType]]:
        """End a worker, or bury a dead one, and make a place for another; returns what it held."""
        held = self._held.pop(worker)
        self._schedule.leave(worker)
        self._backend.kill(worker)
        self._held[next(self._names)] = _Held()
        return held.messages


def _culprit(sent: _Sent[JobType]) -> ScheduledJob[JobType] | None:
    """The job that a worker was doing; where it could be one of several, they will be sent alone."""
    if len(sent) == 1:
        return next(iter(sent.values()))
    for task in sent.values():
        task.alone = True
    return None
