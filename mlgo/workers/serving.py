"""What runs in a worker process: jobs in, results out, until the pipe closes."""

import contextlib
import signal
from multiprocessing.connection import Connection

from mlgo.compiler.process import die_with_parent
from mlgo.scratch import remove_own_scratch
from mlgo.workers.cores import claim_core

HELD_BACK = (signal.SIGINT, signal.SIGTERM)
"""Signals that reach neither the pool nor the worker while the worker starts."""


def serve(descriptor: int, parent: int) -> None:
    """Receive a maker of handlers, then jobs; send what the handler returns or raises.

    Args:
        descriptor: this end of the pipe.
        parent: process id of the pool; the worker dies with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    die_with_parent(parent=parent)
    claim_core()
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):  # the parent has closed the pipe
        handler = pipe.recv()()
        while True:
            job = pipe.recv()
            try:
                result = handler(job)
            except Exception as error:
                result = error
            pipe.send(result)
    remove_own_scratch()
