"""What runs in a worker process: jobs in, results out, until the pipe closes."""

import contextlib
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from mlgo.base.scratch import remove_own_scratch
from mlgo.base.threads import one_thread_each
from mlgo.errors import WorkerError
from mlgo.host.process import die_with_parent
from mlgo.pool.cores import claim_core
from mlgo.pool.schedule import AT_ONCE_S

MakeHandler = Callable[[], Callable[[Any], Any]]
"""Called once in each worker; returns the function that jobs go through. Must be picklable.

The handler may have a method ``cancel()``. It does not wait for its turn: while a job runs whose result nobody wants,
it is called on another thread, and should make the job end soon."""

Message = Sequence[tuple[int, Any]]
"""Jobs that are sent together, each after its ticket."""

Answer = tuple[dict[int, Any], list[int]]
"""By ticket what the handler has returned, or `Raised`; and tickets of jobs that were left."""

ANY_CORE = -1
"""Stands for a core that nobody has claimed."""

HELD_BACK = (signal.SIGINT, signal.SIGTERM)
"""Signals that reach neither the pool nor the worker while the worker starts."""


@dataclass(frozen=True)
class Raised:
    """Stands for the result of a job whose handler raised, or could not be made: a defect or a mistake of the user."""

    error: BaseException


@dataclass(frozen=True)
class Cancel:
    """The one message that does not wait for its turn: nobody wants this job any more."""

    ticket: int


class Runner:
    """One handler and the message that it works through; what it raises is a result, too."""

    def __init__(self, make_handler: MakeHandler) -> None:
        self._present: int | None = None
        self._unwanted: set[int] = set()
        self._changing = threading.Lock()
        try:
            self._handler: Callable[[Any], Any] | Raised = make_handler()
        except Exception as error:
            self._handler = Raised(error)

    def work_through(self, jobs: Message) -> Answer:
        """Do the first job, and the others as long as that is possible at once; none that was cancelled."""
        results: dict[int, Any] = {}
        end = time.monotonic() + AT_ONCE_S
        for ticket, job in jobs:
            if results and time.monotonic() >= end:
                break
            with self._changing:
                if ticket in self._unwanted:
                    if not results:  # an answer has one at least, which nobody reads
                        results[ticket] = Raised(WorkerError("the job was cancelled before it began"))
                    continue
                self._present = ticket
            results[ticket] = self._run(job)
        with self._changing:
            self._unwanted.clear()
        return results, [ticket for ticket, _ in jobs if ticket not in results]

    def _run(self, job: Any) -> Any:
        try:
            return self._handler if isinstance(self._handler, Raised) else self._handler(job)
        except Exception as error:
            return Raised(error)
        finally:
            with self._changing:  # a cancellation of this job must not hit the next one
                self._present = None

    def cancel(self, ticket: int) -> None:
        """Let the handler end a job if that is the one it does, else leave it; called on another thread."""
        cancel = getattr(self._handler, "cancel", None)
        with self._changing:
            if self._present != ticket:
                self._unwanted.add(ticket)
            elif cancel is not None:
                cancel()


def serve(descriptor: int, parent: int, core: int | None = ANY_CORE) -> None:
    """Receive a maker of handlers, then messages with jobs; send what `Runner.work_through` returns.

    Args:
        descriptor: this end of the pipe.
        parent: process id of the pool; the worker dies with it.
        core: to bind itself to, `ANY_CORE` for one that is free; with None it stays on its parent's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    die_with_parent(parent=parent)
    if core == ANY_CORE:
        claim_core()
    elif core is not None:
        os.sched_setaffinity(0, {core})
    one_thread_each()  # before the handler's imports, and whoever started the pool
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):  # the parent has closed the pipe
        runner = Runner(lambda: pipe.recv()())  # what cannot be read here, as when a module is missing, is raised, too
        messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        threading.Thread(target=_receive, args=(pipe, messages, runner), daemon=True).start()
        while (message := messages.get()) is not None:
            _send(pipe, runner.work_through(message))
    remove_own_scratch()


def _send(pipe: Connection, answer: Answer) -> None:
    try:
        pipe.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception:  # something in it cannot be pickled, and nothing was sent
        results, left = answer
        pipe.send(({ticket: _sendable(result) for ticket, result in results.items()}, left))


def _sendable(result: Any) -> Any:
    try:
        pickle.dumps(result)
    except Exception as error:
        return Raised(TypeError(f"a worker cannot send its result: {error}"))
    return result


def _receive(pipe: Connection, messages: "queue.SimpleQueue[Message | None]", runner: Runner) -> None:
    """Read what the pool sends also while a job runs, so that it never has to wait to say something."""
    try:
        while True:
            message = pipe.recv()
            if isinstance(message, Cancel):
                runner.cancel(message.ticket)
            else:
                messages.put(message)
    except (EOFError, OSError):  # the parent has closed the pipe
        messages.put(None)
    except Exception:  # a job that cannot be read here, so nobody knows which it was
        traceback.print_exc()
        os._exit(1)
