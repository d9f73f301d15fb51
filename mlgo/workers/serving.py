"""What runs in a worker process: jobs in, results out, until the pipe closes."""

import contextlib
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from mlgo.compiler.process import die_with_parent
from mlgo.scratch import remove_own_scratch
from mlgo.workers.cores import claim_core
from mlgo.workers.crew import MakeHandler, Raised

HELD_BACK = (signal.SIGINT, signal.SIGTERM)
"""Signals that reach neither the pool nor the worker while the worker starts."""

CANCEL = "cancel"
"""Message that does not wait for its turn: the handler is told to end its present job."""


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
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):  # the parent has closed the pipe
        handler = _make(pipe.recv())
        jobs: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=_receive, args=(pipe, jobs, handler), daemon=True).start()
        while (job := jobs.get()) is not None:
            ticket, content = job
            _send(pipe, ticket, _result(handler, content))
    remove_own_scratch()


def _make(make_handler: MakeHandler) -> Callable[[Any], Any] | Raised:
    try:
        return make_handler()
    except Exception as error:
        return Raised(error)


def _result(handler: Callable[[Any], Any] | Raised, job: Any) -> Any:
    if isinstance(handler, Raised):
        return handler
    try:
        return handler(job)
    except Exception as error:
        return Raised(error)


def _send(pipe: Connection, ticket: int, result: Any) -> None:
    try:
        pipe.send((ticket, result))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # it cannot be pickled, and nothing of it was sent
        pipe.send((ticket, Raised(TypeError(f"a worker cannot send its result: {error}"))))


def _receive(
    pipe: Connection, jobs: "queue.SimpleQueue[tuple[int, Any] | None]", handler: Callable[[Any], Any] | Raised
) -> None:
    """Read what the pool sends also while a job runs, so that it never has to wait to say something."""
    cancel = getattr(handler, "cancel", None)
    try:
        while True:
            message = pipe.recv()
            if message == CANCEL:
                if cancel is not None:
                    cancel()
            else:
                jobs.put(message)
    except (EOFError, OSError):  # the parent has closed the pipe
        jobs.put(None)
