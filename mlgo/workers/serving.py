"""What runs in a worker process: jobs in, results out, until the pipe closes."""

import contextlib
import os
import signal
from multiprocessing.connection import Connection

from mlgo.compiler.process import die_with_parent
from mlgo.scratch import remove_own_scratch
from mlgo.workers.cores import claim_core


def serve(descriptor: int, parent: int) -> None:
    """Receive a maker of handlers, then jobs; send what the handler returns or raises.

    Args:
        descriptor: this end of the pipe.
        parent: process id of the pool; the worker dies with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    die_with_parent()
    if os.getppid() != parent:  # it died before the kernel knew our wish
        return
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
