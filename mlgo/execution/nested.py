"""Workers hosted by nesting workers, which experiments share: what one leaves idle, the others use."""

import contextlib
import os
import pickle
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from mlgo.core.errors import WorkerError
from mlgo.execution.address import Address, hang_up
from mlgo.execution.backend import Answered, Event, Gone, MakeHandler, Message, Started
from mlgo.execution.frames import Frame, Kind
from mlgo.execution.local import Place
from mlgo.execution.messages import MOST
from mlgo.execution.nesting_server import BEAT_S, PROTOCOL
from mlgo.execution.schedule import WorkerName

_ANSWER_S = 10.0
_QUIET_S = 6 * BEAT_S


class NestedBackend:
    """Stubs for workers of a `NestingServer`, see `mlgo.execution.backend.Backend`.

    Its pool should have a worker on each nesting worker (``num_nesting``), since a worker stays where its first job
    found it. Each holds a second message, so that an experiment whose turn it is goes on without a gap, see
    `mlgo.execution.fair`.

    Attributes:
        num_nesting: nesting workers of the server.

    Args:
        address: of the server.
        make_handler: see `MakeHandler`. Workers find modules and relative paths where this process does.

    Raises:
        WorkerError: no server is there, or it does not accept this experiment.
    """

    depth = 2
    most = MOST
    tells_start = True

    def __init__(self, address: Address, make_handler: MakeHandler) -> None:
        self._address, place = address, Place.here()
        self._connection = address.connect()
        self._workers: set[WorkerName] = set()
        self._started = 0
        about = {
            "protocol": PROTOCOL,
            "process": os.getpid(),
            "host": socket.gethostname(),
            "folder": place.folder,
            "interpreter": place.interpreter,
            "search": place.search,
        }
        try:
            self._say(Frame.of_json(Kind.HELLO, about))
            self.num_nesting: int = _answer(self._connection, address, Kind.WELCOME).json()["nesting"]
            self._say(Frame(Kind.MAKER, body=pickle.dumps(make_handler)))
        except BaseException:
            self._connection.close()
            raise

    def start(self) -> WorkerName:
        """Make a place; where it is hosted is decided with its first job."""
        self._started += 1
        self._workers.add(self._started)
        return self._started

    def ready(self, worker: WorkerName) -> bool:
        """Always: jobs wait for their turn at the server."""
        return True

    def send(self, worker: WorkerName, jobs: Message) -> None:
        """Send jobs; if the server has gone, `wait` says so."""
        first, _ = jobs[0]
        call = [ticket for ticket, _ in jobs], pickle.dumps(jobs)  # of which the server needs only the tickets
        self._say(Frame(Kind.CALL, _number(worker), first, pickle.dumps(call)))

    def cancel(self, worker: WorkerName, ticket: int) -> None:
        """Pass it on; a job that waits for its turn will not be done."""
        self._say(Frame(Kind.CANCEL, _number(worker), ticket))

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        """Starts, answers and deaths.

        Raises:
            WorkerError: the server has gone, or not been heard of for a minute.
        """
        now = time.monotonic()
        end = float("inf") if timeout_s is None else now + timeout_s
        quiet = now + _QUIET_S
        while True:
            events, heard = self._events(min(end, quiet) - now)
            now = time.monotonic()
            if events or now >= end:
                return events
            if heard:
                quiet = now + _QUIET_S
            elif now >= quiet:
                raise WorkerError(f"the workers at {self._address} {_silent(_QUIET_S)}")

    def _events(self, timeout_s: float) -> tuple[list[Event], bool]:
        """What has come, and whether anything has."""
        events, heard = [], False
        try:
            while self._connection.poll(0.0 if heard else max(0.0, timeout_s)):
                frame = Frame.from_bytes(self._connection.recv_bytes())
                heard = True
                if (event := self._event(frame)) is not None:
                    events.append(event)
        except (EOFError, OSError) as error:
            if not events:
                raise WorkerError(f"the workers at {self._address} have gone; {_remedy(self._address)}") from error
        return events, heard

    def _event(self, frame: Frame) -> Event | None:
        if frame.kind == Kind.REFUSED:
            raise WorkerError(frame.json()["reason"])
        if frame.worker not in self._workers:  # killed meanwhile, or nobody in particular
            return None
        if frame.kind == Kind.STARTED:
            return Started(frame.worker)
        if frame.kind == Kind.ANSWER:
            return Answered(frame.worker, *pickle.loads(frame.body))
        if frame.kind == Kind.GONE:
            end = frame.json()
            return Gone(frame.worker, end["exit_code"], end["reason"])
        return None

    def idle(self) -> None:
        """Workers stay as they are, and so does what they keep warm."""

    def kill(self, worker: WorkerName) -> None:
        """Have the hosted worker ended."""
        self._workers.discard(worker)
        self._say(Frame(Kind.RELEASE, _number(worker)))

    def close(self) -> None:
        """Hang up; the server ends all workers of this experiment."""
        self._workers.clear()
        self._connection.close()

    def _say(self, frame: Frame) -> None:
        try:
            self._connection.send_bytes(frame.to_bytes())
        except OSError:  # half a message may be on its way, so nothing can follow
            hang_up(self._connection)


def ask_status(address: Address) -> dict[str, Any]:
    """Who uses what of a server, see `NestingServer.status`.

    Raises:
        WorkerError: no server is there, or it does not answer.
    """
    with contextlib.closing(address.connect()) as connection:
        connection.send_bytes(Frame(Kind.STATUS).to_bytes())
        status: dict[str, Any] = _answer(connection, address, Kind.STATUS).json()
        return status


def stop_server(address: Address) -> None:
    """End a server with all its workers and wait for its end.

    Raises:
        WorkerError: no server is there, or it does not end.
    """
    with contextlib.closing(address.connect()) as connection:
        connection.send_bytes(Frame(Kind.STOP).to_bytes())
        with contextlib.suppress(EOFError, ConnectionError):
            if not connection.poll(_ANSWER_S):
                raise WorkerError(f"the server at {address} does not stop; kill it")
            connection.recv_bytes()


def _answer(connection: Connection, address: Address, kind: Kind) -> Frame:
    try:
        if not connection.poll(_ANSWER_S):
            raise WorkerError(f"the server at {address} {_silent(_ANSWER_S)}")
        frame = Frame.from_bytes(connection.recv_bytes())
    except (EOFError, OSError, ValueError) as error:
        raise WorkerError(f"the workers at {address} have gone; {_remedy(address)}") from error
    if frame.kind == Kind.REFUSED:
        raise WorkerError(frame.json()["reason"])
    if frame.kind != kind:
        raise WorkerError(f"the server at {address} is of another version of mlgo; start it again with this one")
    return frame


def _silent(seconds: float) -> str:
    return f"have not been heard of for {seconds:g} s; see 'mlgo workers status', or use workers of this machine"


def _remedy(address: Address) -> str:
    return f"start them again with 'mlgo workers serve --address {address}', or use workers of this machine"


def _number(worker: WorkerName) -> int:
    assert isinstance(worker, int)
    return worker
