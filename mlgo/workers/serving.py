"""What runs in a worker process: jobs in, results out, until the pipe closes."""

import contextlib
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from mlgo.compiler.process import die_with_parent
from mlgo.scratch import remove_own_scratch
from mlgo.threads import one_thread_each
from mlgo.workers.cores import claim_core
from mlgo.workers.crew import MakeHandler, NotMade, Raised

HELD_BACK = (signal.SIGINT, signal.SIGTERM)
"""Signals that reach neither the pool nor the worker while the worker starts."""


@dataclass(frozen=True)
class Cancel:
    """The one message that does not wait for its turn.

    Attributes:
        ticket: of the job that nobody wants any more.
    """

    ticket: int


class Runner:
    """One handler and the job that it does; what it raises is a result, too.

    Args:
        make_handler: see `MakeHandler`.
    """

    def __init__(self, make_handler: MakeHandler) -> None:
        self._present: int | None = None
        self._changing = threading.Lock()
        try:
            self._handler: Callable[[Any], Any] | NotMade = make_handler()
        except Exception as error:
            self._handler = NotMade(error)

    def run(self, ticket: int, job: Any) -> Any:
        """Do a job; what the handler returns, or `Raised`; `NotMade` where there is no handler."""
        if isinstance(self._handler, NotMade):
            return self._handler
        self._present = ticket
        try:
            return self._handler(job)
        except Exception as error:
            return Raised(error)
        finally:
            with self._changing:  # a cancellation of this job must not hit the next one
                self._present = None

    def cancel(self, ticket: int) -> None:
        """Let the handler end a job, if that is the one it does; called on another thread than `run`."""
        cancel = getattr(self._handler, "cancel", None)
        with self._changing:
            if cancel is not None and self._present == ticket:
                cancel()


def serve(descriptor: int, parent: int, own_core: bool = True) -> None:
    """Receive a maker of handlers, then jobs with their tickets; send what the handler returns, or `Raised`.

    Args:
        descriptor: this end of the pipe.
        parent: process id of the pool; the worker dies with it.
        own_core: whether to claim a core; otherwise the worker stays on its parent's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    die_with_parent(parent=parent)
    if own_core:
        claim_core()
    one_thread_each()  # before the handler's imports, and whoever started the pool
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):  # the parent has closed the pipe
        runner = Runner(_maker(pipe))
        jobs: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=_receive, args=(pipe, jobs, runner), daemon=True).start()
        while (job := jobs.get()) is not None:
            ticket, content = job
            _send(pipe, ticket, runner.run(ticket, content))
    remove_own_scratch()


def _maker(pipe: Connection) -> MakeHandler:
    try:
        maker: MakeHandler = pipe.recv()
    except (EOFError, OSError):  # the parent has closed the pipe
        raise
    except Exception as error:  # it cannot be read here, as when a module is missing
        return partial(_raise, error)
    return maker


def _raise(error: Exception) -> Callable[[Any], Any]:
    raise error


def _send(pipe: Connection, ticket: int, result: Any) -> None:
    try:
        pipe.send((ticket, result))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # it cannot be pickled, and nothing of it was sent
        pipe.send((ticket, Raised(TypeError(f"a worker cannot send its result: {error}"))))


def _receive(pipe: Connection, jobs: "queue.SimpleQueue[tuple[int, Any] | None]", runner: Runner) -> None:
    """Read what the pool sends also while a job runs, so that it never has to wait to say something."""
    try:
        while True:
            message = pipe.recv()
            if isinstance(message, Cancel):
                runner.cancel(message.ticket)
            else:
                jobs.put(message)
    except (EOFError, OSError):  # the parent has closed the pipe
        jobs.put(None)
    except Exception:  # a job that cannot be read here, so nobody knows which it was
        traceback.print_exc()
        os._exit(1)
