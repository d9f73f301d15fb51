"""What a pool needs of its workers, wherever they run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mlgo.pool.schedule import MOST, WorkerName

MakeHandler = Callable[[], Callable[[Any], Any]]
"""Called once in each worker; returns the function that jobs go through. Must be picklable.

The handler may have a method ``cancel()``. It does not wait for its turn: while a job runs whose result nobody wants,
it is called on another thread, and should make the job end soon."""


Status = dict[str, Any]
"""Plain values that are shown to the user."""

Message = Sequence[tuple[int, Any]]
"""Jobs that are sent together, each after its ticket."""


@dataclass(frozen=True)
class Raised:
    """Stands for the result of a job whose handler raised, which is a defect or a mistake of the user."""

    error: BaseException


@dataclass(frozen=True)
class NotMade(Raised):
    """Stands for the result of every job of a worker whose handler could not be made."""


@dataclass(frozen=True)
class Answered:
    """A worker has answered a message.

    Attributes:
        results: by the ticket of the job, what the handler returned, or `Raised`; at least one.
        left: tickets of jobs that were not begun, since others took long; somebody else may do them.
    """

    worker: WorkerName
    results: Mapping[int, Any]
    left: Sequence[int] = ()


@dataclass(frozen=True)
class Gone:
    """A worker has died, with all messages that it held.

    Attributes:
        exit_code: of its process, negative for a signal; None where it is not known.
        overdue: it was ended since the first of these messages took too long.
    """

    worker: WorkerName
    exit_code: int | None = None
    reason: str = ""
    overdue: bool = False


Event = Answered | Gone


class Backend(Protocol):
    """Workers of one kind: how they are started, reached and ended.

    A worker does its jobs in the order in which they were sent.

    Attributes:
        depth: messages that a worker should hold, the one at work included; more than one hides the way to it.
    """

    depth: int = 1
    most: int = MOST
    _num_started: int = 0

    def start(self) -> WorkerName:
        """Make a place for one more worker, which starts now or with its first job; gives its name."""
        self._num_started += 1
        return self._num_started

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
        """Events since the last call; waits for the first.

        Args:
            timeout_s: how long; None for as long as it takes. When time runs out there are none.
        """
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
