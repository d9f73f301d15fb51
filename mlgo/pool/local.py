"""Workers that are processes of this machine."""

import contextlib
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path

from mlgo.base.scratch import sweep_abandoned
from mlgo.pool.cores import warn_without_affinity
from mlgo.pool.pool import Answered, Backend, Event, Gone
from mlgo.pool.schedule import WorkerName
from mlgo.pool.worker import ANY_CORE, HELD_BACK, Cancel, MakeHandler, Message, Runner

_STOP_TIMEOUT_S = 5.0


class LocalBackend(Backend):
    """Processes of this machine, see `Backend`."""

    def __init__(self, make_handler: MakeHandler) -> None:
        warn_without_affinity()
        self._make_handler = pickle.dumps(make_handler)
        self._workers: dict[WorkerName, LocalWorker] = {}
        self._selector = selectors.DefaultSelector()
        self._dead: list[int] = []

    def send(self, worker: WorkerName, jobs: Message) -> None:
        if worker not in self._workers:
            one = LocalWorker(self._make_handler)
            self._selector.register(one.pipe, selectors.EVENT_READ, worker)  # first: `close` takes it out again
            self._workers[worker] = one
            one.start()
        self._workers[worker].send(pickle.dumps(jobs))

    def cancel(self, worker: WorkerName, ticket: int) -> None:
        self._workers[worker].send(pickle.dumps(Cancel(ticket)))

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        return [self._event(key.data) for key, _ in self._selector.select(timeout_s)]

    def _event(self, worker: WorkerName) -> Event:
        one = self._workers[worker]
        try:
            return Answered(worker, *one.pipe.recv())
        except (EOFError, ConnectionResetError):
            return Gone(worker, one.exit_code())

    def kill(self, worker: WorkerName) -> None:
        if (one := self._workers.pop(worker, None)) is not None:  # else it could not be started
            self._selector.unregister(one.pipe)
            one.stop()
            if one.pid is not None:
                self._dead.append(one.pid)

    def close(self) -> None:
        for one in self._workers.values():
            self._selector.unregister(one.pipe)
            one.pipe.close()  # an idle worker sees the end of its pipe and returns
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for one in self._workers.values():
            one.stop(deadline)
        self._dead += [pid for one in self._workers.values() if (pid := one.pid) is not None]
        self._workers.clear()
        self._selector.close()
        sweep_abandoned(self._dead)


@dataclass(frozen=True)
class WorkerEnvironment:
    """What makes names and relative paths mean to a worker what they mean to those who send it jobs.

    An empty ``folder`` is that of whoever starts the worker, even where its path cannot be entered anew.
    """

    interpreter: str
    search: tuple[str, ...]
    folder: str

    @classmethod
    def here(cls) -> "WorkerEnvironment":
        return cls(sys.executable, tuple(sys.path), str(Path.cwd()))


class LocalWorker:
    """One process that runs one handler.

    Attributes:
        pipe: gives what `Runner.work_through` returns, and its end when the process has died.

    Args:
        make_handler: see `MakeHandler`, pickled.
        core: the process binds itself to this one, with `ANY_CORE` to one that nobody has claimed; with None it stays
            where its creator runs.
        place: where it works; where this process does by default.
    """

    def __init__(
        self, make_handler: bytes, *, core: int | None = ANY_CORE, place: WorkerEnvironment | None = None
    ) -> None:
        self._unsent = [make_handler]
        self._core, self._place = core, place or WorkerEnvironment(sys.executable, tuple(sys.path), "")
        self._process: subprocess.Popen[bytes] | None = None
        self._sending = threading.Lock()
        self.pipe, self._theirs = Pipe()

    def start(self) -> None:
        """Start the process, unless it was started before; it ends with the thread that starts it."""
        if self._process is not None:
            return
        # Not by multiprocessing: its children import the main program, with all that only the learner needs.
        descriptor, place = self._theirs.fileno(), self._place
        program = (
            f"import sys; sys.path[:] = {list(place.search)!r}; "
            f"from mlgo.pool.worker import serve; serve({descriptor}, {os.getpid()}, {self._core})"
        )
        # Ctrl-C and SIGTERM wait while it starts: half-started, it could be neither used nor killed. It inherits
        # this, so a Ctrl-C in the terminal does not meet it before it ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            self._process = subprocess.Popen(
                [place.interpreter, "-c", program],
                stdin=subprocess.DEVNULL,
                pass_fds=[descriptor],
                cwd=place.folder or None,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._theirs.close()

    def send(self, *messages: bytes) -> None:
        """Send jobs with their tickets, or `Cancel`, pickled. Any thread may; it waits while the process hangs."""
        with self._sending, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death shows in the answer
            self._unsent += messages
            while self._unsent:
                self.pipe.send_bytes(self._unsent.pop(0))

    def exchange(self, *messages: bytes) -> bytes:
        """Send what `send` does and wait for the answer, pickled."""
        self.send(*messages)
        return self.pipe.recv_bytes()

    def exit_code(self) -> int | None:
        """How the process has ended, after the end of its pipe was seen."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_TIMEOUT_S)
        return self._process.returncode

    def interrupt(self) -> None:
        """Kill the process; whoever reads the pipe sees its end. Any thread may do so at any time."""
        if self._process is not None:
            self._process.kill()

    @property
    def pid(self) -> int | None:
        """Of its process; None before it has started."""
        return self._process.pid if self._process is not None else None

    def stop(self, deadline: float = 0.0) -> None:
        """Close the pipe, at whose end an idle process returns, and kill it when ``time.monotonic()`` is that late."""
        self.pipe.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
            self._process.kill()
            self._process.wait()
        self._theirs.close()


class SerialBackend(Backend):
    """Handlers that run one after another in this process, see `Backend`; each is made with its first job.

    What kills a worker kills the caller here, and a running job cannot be cancelled.
    """

    most = 1

    def __init__(self, make_handler: MakeHandler) -> None:
        self._make_handler = make_handler
        self._runners: dict[WorkerName, Runner] = {}
        self._sent: deque[tuple[WorkerName, Message]] = deque()

    def send(self, worker: WorkerName, jobs: Message) -> None:
        self._sent.append((worker, jobs))

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        worker, jobs = self._sent.popleft()
        if worker not in self._runners:
            self._runners[worker] = Runner(self._make_handler)
        return [Answered(worker, *self._runners[worker].work_through(jobs))]

    def kill(self, worker: WorkerName) -> None:
        self._runners.pop(worker, None)
        self._sent = deque(one for one in self._sent if one[0] != worker)

    def close(self) -> None:
        self._runners.clear()
        self._sent.clear()
