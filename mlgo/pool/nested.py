"""Workers hosted by a nesting worker, which experiments share: what one leaves idle, the others use."""

import os
import pickle
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mlgo.base.files import write_text
from mlgo.base.scratch import Closing
from mlgo.errors import WorkerCrashed, WorkerError, WorkerOverdue, WorkerReleased
from mlgo.pool.cluster import LOCAL_INSTEAD, Inbox, connect, disconnect, is_listening, on_this_machine
from mlgo.pool.local import WorkerEnvironment
from mlgo.pool.nesting import PROTOCOL, NestingWorker, Status
from mlgo.pool.pool import Answered, Backend, Event, Gone
from mlgo.pool.schedule import TURN_S, WorkerName
from mlgo.pool.worker import MakeHandler, Message

ADDRESS_FILE = Path("data/work/workers.address")
"""Where a nesting worker on a cluster of its own leaves the address of that; relative to the working folder."""

_NAME = "workers"
_CALLS = 100_000
"""That may wait in a nesting worker at the same time."""

_START_S = 60.0
_ANSWER_S = 10.0
_QUIET_S = 60.0
_REMEDY = f"start them with 'mlgo workers serve', {LOCAL_INSTEAD}"


class NestedBackend(Backend):
    """Proxies of workers that a `NestingWorker` hosts, see `Backend`.

    Its pool should have a worker on each core (``num_cores``), since a worker stays where its first job found it. Each
    holds a second message, so that an experiment whose turn it is goes on without a gap, see `mlgo.pool.schedule`.

    Args:
        address: of a Ray cluster as ``host:port`` or ``auto``, with ``/name`` where the nesting worker has another name
            than by default; empty for the one that `ADDRESS_FILE` names.
        make_handler: see `MakeHandler`. Workers find modules and relative paths where this process does.
        deadline_s: time that a job may take, without that for which it waits for others.
    """

    depth = 2

    def __init__(self, address: str, make_handler: MakeHandler, deadline_s: float | None = None) -> None:
        self._deadline_s, place = deadline_s, WorkerEnvironment.here()
        self._nesting = NestingProxy(address)
        self._experiment = uuid.uuid4().hex[:12]
        self._workers: set[WorkerName] = set()
        self._num_calls = 0
        self._heard = time.monotonic()
        about = {"process": os.getpid(), "host": socket.gethostname(), "folder": place.folder}
        try:
            actor = self._nesting.actor
            alive = [actor.ended.remote()]  # whoever waits for this hears from Ray when its owner has died
            maker = pickle.dumps(make_handler)
            joined = actor.join.remote(self._experiment, PROTOCOL, maker, place, about, alive)
            self.num_cores: int = self._nesting.ask(joined)
        except BaseException:
            self._nesting.close()
            raise

    def send(self, worker: WorkerName, jobs: Message) -> None:
        self._workers.add(worker)
        tickets = [ticket for ticket, _ in jobs]
        message, deadline_s = pickle.dumps(jobs), self._deadline_s
        answer = self._call("submit", self._experiment, self._name(worker), tickets, message, deadline_s)
        self._nesting.inbox.expect(answer, worker)

    def cancel(self, worker: WorkerName, ticket: int) -> None:
        self._call("cancel", self._name(worker), ticket)

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        arrivals = self._nesting.inbox.take(timeout_s)
        if arrivals:
            self._heard = time.monotonic()
        elif time.monotonic() >= self._heard + _QUIET_S:
            self._nesting.ask(self._nesting.actor.outstanding.remote())
            self._heard = time.monotonic()
        return [event for worker, future in arrivals if (event := self._event(worker, future)) is not None]

    def _event(self, worker: WorkerName, future: "Future[Any]") -> Event | None:
        try:
            answer = self._nesting.result(future)
        except WorkerError as error:
            if worker not in self._workers:  # killed, or it has been told already
                return None
            if not isinstance(error, WorkerCrashed | WorkerOverdue):
                raise
            self._workers.discard(worker)
            if isinstance(error, WorkerOverdue):
                return Gone(worker, reason=f"it took longer than {self._deadline_s:g} s", overdue=True)
            return Gone(worker, error.exit_code, str(error))
        if worker not in self._workers:  # its answer is no longer needed
            return None
        return Answered(worker, *pickle.loads(answer))

    def kill(self, worker: WorkerName) -> None:
        self._workers.discard(worker)
        self._call("release", self._name(worker))

    def close(self) -> None:
        self._workers.clear()
        with suppress(WorkerError):  # it has gone
            self._nesting.ask(self._nesting.actor.leave.remote(self._experiment))
        self._nesting.close()

    def _call(self, method: str, *args: Any) -> Any:
        reference = self._nesting.actor.in_order.remote(self._experiment, self._num_calls, method, *args)
        self._num_calls += 1
        return reference

    def _name(self, worker: WorkerName) -> str:
        return f"{self._experiment}.{worker}"


class NestingProxy(Closing):
    """A nesting worker, by its address as `NestedBackend` takes it."""

    def __init__(self, address: str) -> None:
        cluster, name = _cluster_and_name(address)
        cluster = cluster or _noted_address()
        if not cluster:
            raise WorkerError(f"no workers: there is no {ADDRESS_FILE}; {_REMEDY}")
        self.address = cluster if name == _NAME else f"{cluster}/{name}"
        self._ray = connect(cluster, "shared")
        try:
            self.actor = self._ray.get_actor(name)
            self.inbox = Inbox(self._ray.get_runtime_context().gcs_address)
        except ValueError as error:
            self.close()
            raise WorkerError(f"no workers at {self.address}; {_REMEDY}") from error

    def ask(self, call: Any) -> Any:
        """Wait for an answer, which takes it no time."""
        return self.result(call.future(), _ANSWER_S)

    def result(self, future: "Future[Any]", timeout_s: float | None = None) -> Any:
        """What a call has come to; raises as `ask`."""
        try:
            return future.result(timeout_s)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, WorkerReleased):  # all are, and not by us
                raise WorkerError(f"the workers at {self.address} have gone; {_REMEDY}") from error
            raise error.cause from None
        except TimeoutError:
            silent = f"the workers at {self.address} have not answered for {timeout_s:g} s"
            raise WorkerError(f"{silent}; see 'mlgo workers status', {LOCAL_INSTEAD}") from None
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"the workers at {self.address} have gone; {_REMEDY}") from error

    def status(self) -> Status:
        """Who uses what, see `NestingWorker.status`; and where."""
        return {"address": self.address, **self.ask(self.actor.status.remote())}

    def stop(self) -> None:
        """End the nesting worker with all that it hosts."""
        self.ask(self.actor.close.remote())

    def wait_for_end(self) -> None:
        """Wait until somebody stops it."""
        self.result(self.actor.ended.remote().future())

    def close(self) -> None:
        disconnect()


@contextmanager
def serve_workers(
    address: str, num_cores: int, *, at_once: int = 1, turn_s: float = TURN_S
) -> Iterator["NestingProxy"]:
    """Host a nesting worker on this machine, for as long as the context lasts; see `NestingWorker`.

    Args:
        address: see `NestedBackend`; empty starts a cluster of one machine, and notes its address in `ADDRESS_FILE`.
    """
    cluster, name = _cluster_and_name(address)
    if not cluster and (found := _noted_address()) and is_listening(found):
        raise WorkerError(f"workers are already served at {found}; stop them with 'mlgo workers stop'")
    ray = connect(cluster, "shared", num_cpus=0)
    with ExitStack() as stack:
        stack.callback(disconnect)
        actor = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=_CALLS)(NestingWorker)
        try:
            host = actor.options(name=name, scheduling_strategy=on_this_machine(ray)).remote(
                num_cores, at_once=at_once, turn_s=turn_s, own_cores=True
            )
        except ValueError as error:
            raise WorkerError(f"workers are already served at {address}; stop them or choose another name") from error
        stack.callback(ray.kill, host)
        head = ray.get_runtime_context().gcs_address
        if not cluster:
            stack.callback(ADDRESS_FILE.unlink, missing_ok=True)
            write_text(ADDRESS_FILE, head)
        served = stack.enter_context(NestingProxy(f"{head}/{name}"))
        served.result(host.outstanding.remote().future(), _START_S)
        try:
            yield served
        finally:
            with suppress(WorkerError):
                served.stop()


def _cluster_and_name(address: str) -> tuple[str, str]:
    cluster, _, name = address.partition("/")
    return cluster, name or _NAME


def _noted_address() -> str:
    try:
        return ADDRESS_FILE.read_text().strip()
    except FileNotFoundError:
        return ""
