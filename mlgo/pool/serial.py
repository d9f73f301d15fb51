"""Workers in the calling process: for debuggers, and for jobs too small to send anywhere."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mlgo.pool.backend import Answered, Backend, Event, MakeHandler, Message, Raised
from mlgo.pool.schedule import WorkerName


class SerialBackend(Backend):
    """Handlers that run one after another in this process, see `mlgo.pool.backend.Backend`.

    A handler is made with the first job. What kills a worker kills the caller here, and a running job cannot be
    cancelled.

    Args:
        make_handler: see `MakeHandler`.
    """

    most = 1

    def __init__(self, make_handler: MakeHandler) -> None:
        self._make_handler = make_handler
        self._handlers: dict[WorkerName, Callable[[Any], Any]] = {}
        self._sent: deque[tuple[WorkerName, int, Any]] = deque()

    def send(self, worker: WorkerName, jobs: Message) -> None:
        """Keep the jobs until somebody waits for them."""
        self._sent += [(worker, ticket, job) for ticket, job in jobs]

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        """Do the next job."""
        worker, ticket, job = self._sent.popleft()
        try:
            if worker not in self._handlers:
                self._handlers[worker] = self._make_handler()
            return [Answered(worker, {ticket: self._handlers[worker](job)})]
        except Exception as error:
            return [Answered(worker, {ticket: Raised(error)})]

    def kill(self, worker: WorkerName) -> None:
        """Drop a worker with what it holds."""
        self._handlers.pop(worker, None)
        self._sent = deque(one for one in self._sent if one[0] != worker)

    def close(self) -> None:
        """Drop all."""
        self._handlers.clear()
        self._sent.clear()
