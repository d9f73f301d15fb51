"""Nesting workers of this machine behind one socket, shared by experiments."""

import contextlib
import os
import pickle
import queue
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from mlgo import __version__
from mlgo.core.errors import WorkerCrashed, WorkerError
from mlgo.core.scratch import sweep_abandoned
from mlgo.execution.address import Address, hang_up, welcome
from mlgo.execution.cores import warn_without_affinity
from mlgo.execution.fair import TURN_S, FairShare
from mlgo.execution.frames import Frame, Kind
from mlgo.execution.local import Place
from mlgo.execution.nesting import NestingWorker

PROTOCOL = 2
BEAT_S = 10.0
"""How often an experiment that waits for results hears of the server at least."""

_STOP_TIMEOUT_S = 5.0


class NestingServer:
    """Serves the nesting workers of this machine until it is stopped.

    Each experiment has one connection. Its workers are spread over all nesting workers; where it has equally few on
    several, the one with the least outstanding work hosts the next. When the connection ends, whoever ends it, they are
    released.

    Attributes:
        nesting: the nesting workers.

    Args:
        address: where to listen.
        num_workers: nesting workers.
        at_once: see `NestingWorker`.
        turn_s: see `mlgo.execution.fair.FairShare`.
        own_cores: whether each nesting worker claims a core, as far as there are any.

    Raises:
        WorkerError: the address cannot be had.
    """

    def __init__(
        self, address: Address, num_workers: int, *, at_once: int = 1, turn_s: float = TURN_S, own_cores: bool = True
    ) -> None:
        warn_without_affinity()
        self.address, self.turn_s = address, turn_s
        self._started = time.monotonic()
        self._listener = address.listen()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._experiments: dict[int, _Experiment] = {}
        self._arrivals = 0
        self._lock = threading.Lock()
        self.nesting: list[NestingWorker] = []
        try:
            self._key = address.make_key()
            for _ in range(num_workers):
                self.nesting.append(NestingWorker(own_core=own_cores, at_once=at_once))
        except BaseException:
            self.close()
            raise

    def serve(self) -> None:
        """Take in experiments until `stop` is called."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == self._wake:
                        return
                    with contextlib.suppress(OSError):  # it has gone again
                        self._take_in(self._listener.accept()[0])

    def stop(self) -> None:
        """Make `serve` return."""
        os.eventfd_write(self._wake, 1)

    def _take_in(self, one: socket.socket) -> None:
        with self._lock:
            self._arrivals += 1
            experiment = _Experiment(self, self._arrivals, one, self._key)
            self._experiments[self._arrivals] = experiment
        experiment.start()

    def leave(self, number: int) -> None:
        """Forget an experiment that has gone."""
        with self._lock:
            self._experiments.pop(number, None)

    def choose(self, own: list[int]) -> int:
        """Which nesting worker hosts the next worker of an experiment.

        Args:
            own: how many of its workers each hosts already.
        """
        work = [one.outstanding() for one in self.nesting]
        return min(range(len(own)), key=lambda i: (own[i], work[i], len(self.nesting[i].load())))

    def status(self) -> dict[str, Any]:
        """Who uses what, as plain values."""
        seconds = time.monotonic() - self._started
        with self._lock:
            experiments = [one.status() for one in self._experiments.values() if one.introduced]
        return {
            "address": str(self.address),
            "process": os.getpid(),
            "version": __version__,
            "seconds": round(seconds, 1),
            "nesting": [
                {
                    "core": one.core,
                    "workers": len(one.load()),
                    "outstanding": one.outstanding(),
                    "busy_share": round(one.busy_s / max(seconds, 1e-9), 3),
                }
                for one in self.nesting
            ],
            "experiments": experiments,
        }

    def close(self) -> None:
        """End all workers, hang up on all experiments and remove the socket."""
        self._listener.close()
        with self._lock:
            experiments = list(self._experiments.values())
        for experiment in experiments:
            experiment.hang_up()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for experiment in experiments:
            experiment.join(deadline)
        for one in self.nesting:
            one.close()
        os.close(self._wake)
        self.address.remove()
        sweep_abandoned()

    def __enter__(self) -> "NestingServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(eq=False)
class _Stub:
    """A worker as its experiment sees it: where it is hosted, and under which name."""

    nesting: int
    name: str
    is_gone: bool = False


class _Experiment:
    """One connection: a thread reads it, and another writes, so that nobody waits for an experiment that thinks."""

    def __init__(self, server: NestingServer, number: int, one: socket.socket, key: bytes) -> None:
        self.introduced = False
        self._server, self._number, self._socket, self._key = server, number, one, key
        self._connection: Connection | None = None
        self._began = time.monotonic()
        self._about: dict[str, Any] = {}
        self._place = Place.here()
        self._maker = b""
        self._stubs: dict[int, _Stub] = {}
        self._turns = FairShare(len(server.nesting), server.turn_s)
        self._lock = threading.Lock()  # for turns and figures, which threads of nesting workers touch, too
        self._outstanding = self._num_done = 0
        self._used_s = 0.0
        self._out: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"experiment {number}", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"to experiment {number}", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def hang_up(self) -> None:
        if self._connection is not None:
            hang_up(self._connection)
        else:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def join(self, deadline: float) -> None:
        self._reader.join(max(0.0, deadline - time.monotonic()))

    def status(self) -> dict[str, Any]:
        with self._lock:
            return {
                **self._about,
                "seconds": round(time.monotonic() - self._began, 1),
                "workers": len(self._stubs),
                "outstanding": self._outstanding,
                "done": self._num_done,
                "used_s": round(self._used_s, 3),
            }

    def _read(self) -> None:
        try:
            connection = self._connection = welcome(self._socket, self._key)
        except (OSError, EOFError, AssertionError, AuthenticationError):
            self._socket.close()
            self._server.leave(self._number)
            return
        self._writer.start()
        try:
            while True:
                self._obey(Frame.from_bytes(connection.recv_bytes()))
        except WorkerError as error:
            self._out.put(Frame.of_json(Kind.REFUSED, {"reason": str(error)}))
        except (EOFError, OSError, ValueError, KeyError, TypeError):  # it has gone, was hung up on, or talks nonsense
            pass
        finally:
            for worker in list(self._stubs):
                self._release(worker)
            self._server.leave(self._number)
            self._out.put(None)
            self._writer.join(_STOP_TIMEOUT_S)
            connection.close()

    def _obey(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.CALL:
                self._call(frame)
            case Kind.CANCEL:
                if (stub := self._stubs.get(frame.worker)) is not None:
                    self._server.nesting[stub.nesting].cancel(stub.name, frame.ticket)
            case Kind.RELEASE:
                self._release(frame.worker)
            case Kind.HELLO:
                self._meet(frame.json())
            case Kind.MAKER:
                self._maker = frame.body
            case Kind.STATUS:
                self._out.put(Frame.of_json(Kind.STATUS, self._server.status()))
            case Kind.STOP:
                self._server.stop()
            case _:
                raise ValueError(f"{frame.kind} is not for servers")

    def _meet(self, about: dict[str, Any]) -> None:
        if about["protocol"] != PROTOCOL:
            raise WorkerError("the server is of another version of mlgo; start it again with that of the experiment")
        self._place = Place(about["interpreter"], tuple(about["search"]), about["folder"])
        for needed in (self._place.interpreter, self._place.folder):
            if not Path(needed).exists():
                what = f"{needed}, which the experiment uses, is not on the workers' machine"
                raise WorkerError(f"{what}; share that folder with it, or work in one that both have")
        self._about = {name: about[name] for name in ("process", "host", "folder")}
        self.introduced = True
        self._out.put(Frame.of_json(Kind.WELCOME, {"nesting": len(self._server.nesting)}))

    def _call(self, frame: Frame) -> None:
        stub = self._stubs.get(frame.worker) or self._host(frame.worker)
        with self._lock:
            rank = self._turns.asks(time.monotonic())
            self._outstanding += 1
        began: list[float] = []

        def on_start() -> None:
            began.append(time.monotonic())
            self._out.put(Frame(Kind.STARTED, frame.worker, frame.ticket))

        def on_end(result: bytes | WorkerError) -> None:
            seconds = time.monotonic() - began[0] if began else 0.0
            with self._lock:
                self._turns.ends(seconds)
                self._outstanding -= 1
                self._num_done += isinstance(result, bytes)
                self._used_s += seconds
                silent = stub.is_gone
                stub.is_gone |= not isinstance(result, bytes)
            if isinstance(result, bytes):
                self._out.put(Frame(Kind.ANSWER, frame.worker, frame.ticket, result))
            elif not silent:
                code = result.exit_code if isinstance(result, WorkerCrashed) else None
                self._out.put(Frame.of_json(Kind.GONE, {"exit_code": code, "reason": str(result)}, frame.worker))

        nesting = self._server.nesting[stub.nesting]
        tickets, jobs = pickle.loads(frame.body)
        nesting.submit(stub.name, tickets, jobs, on_end, on_start=on_start, rank=rank)

    def _host(self, worker: int) -> _Stub:
        own = [0] * len(self._server.nesting)
        for one in self._stubs.values():
            own[one.nesting] += 1
        stub = _Stub(self._server.choose(own), f"{self._number}.{worker}")
        self._server.nesting[stub.nesting].create(stub.name, self._maker, self._place)
        with self._lock:
            self._stubs[worker] = stub
        return stub

    def _release(self, worker: int) -> None:
        with self._lock:
            stub = self._stubs.pop(worker, None)
            if stub is not None:
                stub.is_gone = True  # it asked for that, so it need not be told
        if stub is not None:
            with contextlib.suppress(WorkerError):
                self._server.nesting[stub.nesting].release(stub.name)

    def _write(self) -> None:
        assert self._connection is not None
        while True:
            try:
                frame = self._out.get(timeout=BEAT_S)
            except queue.Empty:
                if not self._outstanding:  # it may think for hours, and does not read then
                    continue
                frame = Frame(Kind.BEAT)
            if frame is None:
                return
            try:
                self._connection.send_bytes(frame.to_bytes())
            except OSError:
                self.hang_up()
                return
