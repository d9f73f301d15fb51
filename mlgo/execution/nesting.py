"""A worker that hosts workers: where a remote process may hold one object only, or experiments share what they have."""

import contextlib
import itertools
import os
import pickle
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from mlgo.core.errors import UnknownWorker, WorkerCrashed, WorkerError, WorkerNotMade, WorkerReleased
from mlgo.core.scratch import sweep_abandoned
from mlgo.execution.backend import MakeHandler, NotMade, Raised
from mlgo.execution.cores import claim_core
from mlgo.execution.local import LocalWorker, Place
from mlgo.execution.worker import Cancel

WorkerId = Hashable
OnEnd = Callable[[bytes | WorkerError], None]

_STOP_TIMEOUT_S = 5.0
_REMEMBERED = 10_000
"""Released workers whose names are kept, so that a call to one can be told what it met."""


@dataclass(eq=False)
class _Call:
    tickets: Collection[int]
    message: bytes
    order: tuple[float, int]
    on_start: Callable[[], None]
    on_end: OnEnd
    unwanted: set[int] = field(default_factory=set)
    since: float = 0.0


@dataclass(eq=False)
class _Hosted:
    """A hosted worker with its calls, of which the first runs or is the next to run."""

    name: WorkerId
    worker: LocalWorker
    calls: deque[_Call] = field(default_factory=deque)
    running: bool = False
    error: WorkerError | None = None
    interrupted: bool = False


class NestingWorker:
    """Hosts many workers, each in a process of its own, created, called and released by name.

    Hosted workers stay on the nesting worker's core, and of all that have calls only ``at_once`` run: one, unless the
    calls wait more than they compute. A second one on the same core would delay the first without doing more, would
    need the memory of a second compiler, and deadlines of compiles would come to depend on who else is at work. Calls
    to one worker are done in their order; among workers the call with the lowest rank comes first, then the one that
    came first. So a hosted worker waits for its siblings' calls, not only for its own.

    Its own thread starts the hosted processes, which the kernel ends when that thread ends, and reads their answers.
    All methods may be called from any thread. A crash ends one hosted worker; the others go on.

    Attributes:
        core: the one it has claimed; None without one of its own.
        busy_s: time for which calls have run, in seconds.

    Args:
        own_core: whether to claim a core; otherwise it stays where its creator may run.
        at_once: calls that may run at the same time.
    """

    def __init__(self, *, own_core: bool = False, at_once: int = 1) -> None:
        self.core: int | None = None
        self.busy_s = 0.0
        self._at_once = at_once
        self._hosted: dict[WorkerId, _Hosted] = {}
        self._released: dict[WorkerId, None] = {}
        self._leaving: deque[_Hosted] = deque()
        self._cancelled: deque[tuple[_Hosted, int]] = deque()
        self._lock = threading.RLock()
        self._arrivals = self._num_running = 0
        self._tickets = itertools.count()
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._host, args=(own_core, ready), name="nesting", daemon=True)
        self._thread.start()
        ready.wait()

    def create(self, worker_id: WorkerId, make_handler: MakeHandler | bytes, place: Place | None = None) -> None:
        """Host one more worker; its process starts with its first call.

        Args:
            worker_id: its name.
            make_handler: see `mlgo.execution.backend.MakeHandler`; or that, pickled.
            place: where it works.

        Raises:
            WorkerError: the name is taken, or this nesting worker is closed.
        """
        with self._lock:
            if self._closing:
                raise WorkerError(f"worker {worker_id} cannot be created: its nesting worker is closed")
            if worker_id in self._hosted:
                raise WorkerError(f"worker {worker_id} exists already; release it first")
            self._released.pop(worker_id, None)
            self._hosted[worker_id] = _Hosted(worker_id, LocalWorker(make_handler, own_core=False, place=place))

    def call(self, worker_id: WorkerId, job: Any, timeout_s: float | None = None) -> Any:
        """Have a worker do a job and wait for its result.

        Raises:
            UnknownWorker: no such worker was created.
            WorkerReleased: the worker was released, before or meanwhile.
            WorkerNotMade: its handler could not be made.
            WorkerCrashed: its process died.
            WorkerError: no result within ``timeout_s``.
            Exception: what the handler raised.
        """
        ended: Future[bytes | WorkerError] = Future()
        ticket = next(self._tickets)
        self.submit(worker_id, [ticket], pickle.dumps([(ticket, job)]), ended.set_result)
        try:
            answer = ended.result(timeout_s)
        except TimeoutError:
            raise WorkerError(f"worker {worker_id} has not answered within {timeout_s:g} s; release it") from None
        if isinstance(answer, WorkerError):
            raise answer
        results, _ = pickle.loads(answer)
        result = results[ticket]
        if isinstance(result, NotMade):
            what = f"{type(result.error).__name__}: {result.error}"
            raise WorkerNotMade(f"worker {worker_id} could not be made: {what}") from result.error
        if isinstance(result, Raised):
            raise result.error
        return result

    def submit(
        self,
        worker_id: WorkerId,
        tickets: Collection[int],
        message: bytes,
        on_end: OnEnd,
        *,
        on_start: Callable[[], None] = lambda: None,
        rank: float = 0.0,
    ) -> None:
        """Queue jobs and return at once.

        Args:
            worker_id: who does it.
            tickets: of the jobs.
            message: `mlgo.execution.backend.Message` with them, pickled; handed on as it is.
            on_end: gets what `Runner.work_through` returns, pickled, or what went wrong. Like ``on_start`` it is called
                on whichever thread notices and must return at once.
            on_start: called when the first of them begins.
            rank: calls to other workers with a greater one come later.
        """
        with self._lock:
            hosted = self._hosted.get(worker_id)
            error = self._why_not(worker_id) if hosted is None else hosted.error
            if hosted is not None and error is None:
                self._arrivals += 1
                hosted.calls.append(_Call(tickets, message, (rank, self._arrivals), on_start, on_end))
        if error is not None:
            on_end(error)
        else:
            self._rouse()

    def cancel(self, worker_id: WorkerId, ticket: int) -> None:
        """Have a job of the call that runs, or would be next, ended, where the handler can do that, or not begun."""
        with self._lock:
            hosted = self._hosted.get(worker_id)
            if hosted is None or not hosted.calls or ticket not in hosted.calls[0].tickets:
                return
            call = hosted.calls[0]
            call.unwanted.add(ticket)
            dropped = not hosted.running and len(call.unwanted) == len(call.tickets)
            if dropped:
                hosted.calls.popleft()
            elif hosted.running:
                self._cancelled.append((hosted, ticket))
        if dropped:
            raised = Raised(WorkerError(f"the call to worker {worker_id} was cancelled before it began"))
            call.on_end(pickle.dumps((dict.fromkeys(call.tickets, raised), [])))
        self._rouse()

    def release(self, worker_id: WorkerId) -> None:
        """End a worker, also in the middle of a call; its calls fail.

        Raises:
            UnknownWorker: no such worker was created.
            WorkerReleased: it has been released already.
        """
        with self._lock:
            hosted = self._hosted.pop(worker_id, None)
            if hosted is None:
                raise self._why_not(worker_id)
            self._released[worker_id] = None
            if len(self._released) > _REMEMBERED:
                del self._released[next(iter(self._released))]
            self._leaving.append(hosted)
            failed = self._fail(hosted, WorkerReleased(f"worker {worker_id} has been released"))
            hosted.interrupted = bool(failed)
            if failed:
                hosted.worker.end()  # now, whatever the thread is doing, even if it is this worker that holds it up
        _tell(failed, hosted.error)
        self._rouse()

    def outstanding(self) -> int:
        """Calls that run or wait."""
        with self._lock:
            return sum(len(hosted.calls) for hosted in self._hosted.values())

    def load(self) -> dict[WorkerId, int]:
        """The same by worker."""
        with self._lock:
            return {name: len(hosted.calls) for name, hosted in self._hosted.items()}

    def close(self) -> None:
        """End all hosted workers and whatever they run; calls fail."""
        with self._lock:
            self._closing = True
            names = list(self._hosted)
        for name in names:
            with contextlib.suppress(WorkerError):
                self.release(name)
        self._rouse()
        self._thread.join(2 * _STOP_TIMEOUT_S)

    def _why_not(self, worker_id: WorkerId) -> WorkerError:
        if worker_id in self._released:
            return WorkerReleased(f"worker {worker_id} has been released; create it again")
        return UnknownWorker(f"worker {worker_id} is unknown here: it was never created")

    def _rouse(self) -> None:
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _fail(self, hosted: _Hosted, error: WorkerError) -> list[_Call]:
        """Take all calls of a worker that is no more; the lock is held."""
        failed = list(hosted.calls)
        hosted.calls.clear()
        hosted.error = hosted.error or error
        self._stop_clock(hosted, failed)
        return failed

    def _stop_clock(self, hosted: _Hosted, calls: list[_Call]) -> None:
        if hosted.running:
            hosted.running = False
            self._num_running -= 1
            self.busy_s += time.monotonic() - calls[0].since

    def _host(self, own_core: bool, ready: threading.Event) -> None:
        """Start processes, hand out calls and read answers until closed."""
        if own_core:
            self.core = claim_core()
        ready.set()
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    os.eventfd_read(self._wake)
                else:
                    self._hear(key.data)
            while self._leaving:
                self._see_off(self._leaving.popleft())
            if self._closing and not self._hosted:
                break
            while self._cancelled:
                hosted, ticket = self._cancelled.popleft()
                hosted.worker.send(Cancel(ticket))
            while (following := self._next()) is not None:
                self._begin(following)
        with self._lock:
            self._selector.close()
            os.close(self._wake)
            self._wake = -1
        sweep_abandoned()

    def _next(self) -> _Hosted | None:
        with self._lock:
            if self._num_running >= self._at_once:
                return None
            waiting = [one for one in self._hosted.values() if one.calls and not one.running]
            if not waiting:
                return None
            chosen = min(waiting, key=lambda one: one.calls[0].order)
            chosen.running = True
            chosen.calls[0].since = time.monotonic()
            self._num_running += 1
            return chosen

    def _begin(self, hosted: _Hosted) -> None:
        with self._lock:
            if not hosted.running:  # released meanwhile
                return
            call = hosted.calls[0]
            unwanted = list(call.unwanted)
        call.on_start()
        try:
            for message in (*(pickle.dumps(Cancel(ticket)) for ticket in unwanted), call.message):
                if hosted.worker.send_pickled(message):
                    self._selector.register(hosted.worker.pipe, selectors.EVENT_READ, hosted)
        except OSError as error:
            self._end(hosted, WorkerCrashed(f"the process of worker {hosted.name} cannot be started: {error}"))

    def _hear(self, hosted: _Hosted) -> None:
        try:
            answer = hosted.worker.pipe.recv_bytes()
        except (EOFError, OSError):
            self._bury(hosted)
            return
        with self._lock:
            if not hosted.running:  # released meanwhile
                return
            self._stop_clock(hosted, [hosted.calls[0]])
            call = hosted.calls.popleft()
        call.on_end(answer)

    def _bury(self, hosted: _Hosted) -> None:
        self._selector.unregister(hosted.worker.pipe)
        if hosted.error is None:
            code = hosted.worker.exit_code()
            self._end(hosted, WorkerCrashed(f"worker {hosted.name} crashed with exit code {code}", code))

    def _end(self, hosted: _Hosted, error: WorkerError) -> None:
        with self._lock:
            failed = self._fail(hosted, error)
        _tell(failed, hosted.error)

    def _see_off(self, hosted: _Hosted) -> None:
        """End a released worker: an idle one leaves by itself and takes its scratch folder along."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(hosted.worker.pipe)
        hosted.worker.pipe.close()
        hosted.worker.stop(time.monotonic() + (0.0 if hosted.interrupted else _STOP_TIMEOUT_S))
        if hosted.interrupted or isinstance(hosted.error, WorkerCrashed):
            sweep_abandoned()

    def __enter__(self) -> "NestingWorker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _tell(calls: list[_Call], error: WorkerError | None) -> None:
    assert error is not None
    for call in calls:
        call.on_end(error)
