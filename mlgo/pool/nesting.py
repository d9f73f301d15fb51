"""A worker that hosts workers: one remote process that several experiments share."""

import asyncio
import contextlib
import itertools
import os
import pickle
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from mlgo import __version__
from mlgo.base.scratch import sweep_abandoned
from mlgo.errors import WorkerCrashed, WorkerError, WorkerOverdue, WorkerReleased
from mlgo.pool.cores import reserve_core, warn_without_affinity
from mlgo.pool.local import LocalWorker, WorkerEnvironment
from mlgo.pool.schedule import TURN_S, FairShare
from mlgo.pool.worker import Cancel, Raised

Status = dict[str, Any]
"""Plain values that are shown to the user."""

PROTOCOL = 5
"""Changes with the methods of `NestingWorker`, which experiments from other checkouts call."""

_STOP_TIMEOUT_S = 5.0


@dataclass(eq=False)
class _Call:
    tickets: Collection[int]
    message: bytes
    deadline_s: float | None
    order: tuple[float, int]
    answer: "asyncio.Future[bytes]"
    unwanted: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Core:
    number: int | None
    running: int = 0
    busy_s: float = 0.0


@dataclass(eq=False)
class _Experiment:
    make_handler: bytes
    place: WorkerEnvironment
    about: Status
    share: FairShare
    next_number: int = 0
    early: dict[int, asyncio.Event] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    num_done: int = 0
    used_s: float = 0.0


@dataclass(eq=False)
class _Hosted:
    """A hosted worker with its calls, of which the first runs or is the next to run."""

    worker_id: str
    experiment: _Experiment
    core: _Core
    worker: LocalWorker
    calls: deque[_Call] = field(default_factory=deque)
    running: bool = False
    error: WorkerError | None = None


class NestingWorker:
    """Hosts many workers, each in a process of its own from its first call on, called and released by name.

    It is meant to be an asynchronous actor of Ray: all methods run on one event loop, whose thread starts the hosted
    processes, and the kernel ends these with it. Other threads talk to hosted processes, so one that hangs holds up
    nobody else. A crash ends one hosted worker; the others go on.

    Each hosted worker is bound to one of the cores: to that on which its experiment has the fewest workers, of these to
    the one with the fewest calls outstanding. Of all calls on a core only ``at_once`` run: one, unless they wait more
    than they compute. A second one on the same core would delay the first without doing more, would need the memory of
    a second compiler, and deadlines would come to depend on who else is at work. Calls to one worker are done in their
    order; among workers the experiment whose turn it is comes first (`mlgo.pool.schedule`).

    Args:
        at_once: calls that may run on a core at the same time.
        turn_s: see `FairShare`.
        own_cores: whether to claim so many cores, as far as there are any; hosted workers run anywhere otherwise.
    """

    def __init__(
        self, num_cores: int = 1, *, at_once: int = 1, turn_s: float = TURN_S, own_cores: bool = False
    ) -> None:
        warn_without_affinity()
        self._at_once, self._turn_s, self._began = at_once, turn_s, time.monotonic()
        self._cores = [_Core(reserve_core() if own_cores else None) for _ in range(num_cores)]
        self._hosted: dict[str, _Hosted] = {}
        self._experiments: dict[str, _Experiment] = {}
        self._arrivals = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(4 * at_once * num_cores + 16, "hosted")
        self._closed, self._ended = False, asyncio.Event()

    async def join(
        self,
        experiment: str,
        protocol: int,
        make_handler: bytes,
        place: WorkerEnvironment,
        about: Status,
        alive: Sequence[Awaitable[Any]],
    ) -> int:
        """Take in an experiment, and release its workers when it has died; gives the number of cores.

        Args:
            make_handler: see `MakeHandler`, pickled.
            place: where its workers work.
            about: of the experiment, for `status`.
            alive: one that ends when the experiment has died.
        """
        if protocol != PROTOCOL:
            raise WorkerError("the nesting worker is of another version of mlgo; start it again with this one")
        if self._closed:
            raise WorkerReleased("the nesting worker is closed")
        for needed in (place.interpreter, place.folder):
            if not os.path.exists(needed):  # noqa: PTH110
                what = f"{needed}, which the experiment uses, is not on the workers' machine"
                raise WorkerError(f"{what}; share that folder with it, or work in one that both have")
        share = FairShare(len(self._cores), self._turn_s)
        self._experiments[experiment] = _Experiment(make_handler, place, about, share)
        self._go_on(self._release_after(experiment, alive[0]), self._watches)
        return len(self._cores)

    async def _release_after(self, experiment: str, alive: Awaitable[Any]) -> None:
        with contextlib.suppress(Exception):
            await alive
        await self.leave(experiment)

    async def in_order(self, experiment: str, number: int, method: str, *args: Any) -> Any:
        """Do what an experiment asks for in the order of its asking: Ray may deliver calls in any order."""
        asking = self._experiments.get(experiment)
        if asking is not None and number != asking.next_number:
            await asking.early.setdefault(number, asyncio.Event()).wait()
        if asking is None or experiment not in self._experiments:
            raise WorkerReleased("all workers of this experiment have been released")
        asking.next_number += 1
        if (following := asking.early.pop(asking.next_number, None)) is not None:
            following.set()
        return await getattr(self, method)(*args)  # begins at once, before the following one and before any `leave`

    async def leave(self, experiment: str) -> None:
        """Release all workers of an experiment."""
        left = self._experiments.pop(experiment, None)
        for hosted in [one for one in self._hosted.values() if one.experiment is left]:
            await self.release(hosted.worker_id)

    async def submit(
        self, experiment: str, worker_id: str, tickets: Collection[int], message: bytes, deadline_s: float | None = None
    ) -> bytes:
        """Have a worker, which is hosted from now on, do a message; gives `mlgo.pool.worker.Answer`, pickled."""
        if worker_id not in self._hosted:
            asking = self._experiments[experiment]
            core = self._choose(asking)
            worker = LocalWorker(asking.make_handler, core=core.number, place=asking.place)
            self._hosted[worker_id] = _Hosted(worker_id, asking, core, worker)
        hosted = self._hosted[worker_id]
        if hosted.error is not None:
            raise hosted.error
        order = hosted.experiment.share.asks(time.monotonic()), next(self._arrivals)
        call = _Call(tickets, message, deadline_s, order, asyncio.get_running_loop().create_future())
        hosted.calls.append(call)
        self._run_next(hosted.core)
        return await call.answer

    async def cancel(self, worker_id: str, ticket: int) -> None:
        """Have a job of the call that runs, or would be next, ended, where the handler can do that, or not begun."""
        hosted = self._hosted.get(worker_id)
        if hosted is None or not hosted.calls or ticket not in (call := hosted.calls[0]).tickets:
            return
        call.unwanted.add(ticket)
        if hosted.running:
            await self._in_thread(hosted.worker.send, pickle.dumps(Cancel(ticket)))
        elif len(call.unwanted) == len(call.tickets):
            raised = Raised(WorkerError(f"the call to worker {worker_id} was cancelled before it began"))
            self._end_call(hosted, 0.0, pickle.dumps((dict.fromkeys(call.tickets, raised), [])))

    async def release(self, worker_id: str) -> None:
        """End a worker, also in the middle of a call; its calls fail."""
        if (hosted := self._hosted.pop(worker_id, None)) is None:  # it has had no call
            return
        self._fail(hosted, WorkerReleased(f"worker {worker_id} has been released"))
        if hosted.running:
            hosted.worker.interrupt()  # its answer will not come, which frees its core
        else:
            self._go_on(self._clean_up(hosted), self._tasks)

    async def outstanding(self) -> dict[str, int]:
        """Calls that run or wait, by worker."""
        return {name: len(hosted.calls) for name, hosted in self._hosted.items()}

    async def status(self) -> Status:
        """Who uses what, as plain values."""
        now = time.monotonic()
        hosted = list(self._hosted.values())
        return {
            "process": os.getpid(),
            "version": __version__,
            "seconds": round(now - self._began, 1),
            "cores": [
                {
                    "core": core.number,
                    "workers": sum(one.core is core for one in hosted),
                    "outstanding": sum(len(one.calls) for one in hosted if one.core is core),
                    "busy_share": round(core.busy_s / max(now - self._began, 1e-9), 3),
                }
                for core in self._cores
            ],
            "experiments": [
                {
                    **experiment.about,
                    "seconds": round(now - experiment.began, 1),
                    "workers": sum(one.experiment is experiment for one in hosted),
                    "outstanding": experiment.share.outstanding,
                    "done": experiment.num_done,
                    "used_s": round(experiment.used_s, 3),
                }
                for experiment in self._experiments.values()
            ],
        }

    async def close(self) -> None:
        """End all hosted workers and whatever they run; calls fail."""
        self._closed = True
        for experiment in list(self._experiments):
            await self.leave(experiment)
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._threads.shutdown()
        self._ended.set()

    async def ended(self) -> None:
        """Wait until somebody has closed it."""
        await self._ended.wait()

    def _choose(self, experiment: _Experiment) -> _Core:
        def load(core: _Core) -> tuple[int, int, int]:
            there = [one for one in self._hosted.values() if one.core is core]
            own = sum(one.experiment is experiment for one in there)
            return own, sum(len(one.calls) for one in there), len(there)

        return min(self._cores, key=load)

    def _run_next(self, core: _Core) -> None:
        """Begin as many calls on a core as may run there."""
        while core.running < self._at_once:
            waiting = [one for one in self._hosted.values() if one.core is core and one.calls and not one.running]
            if not waiting:
                return
            chosen = min(waiting, key=lambda one: one.calls[0].order)
            try:
                chosen.worker.start()
            except OSError as error:
                what = f"the process of worker {chosen.worker_id} cannot be started: {error}"
                self._fail(chosen, WorkerCrashed(what))
                continue
            chosen.running = True
            core.running += 1
            self._go_on(self._run(chosen, chosen.calls[0]), self._tasks)

    async def _run(self, hosted: _Hosted, call: _Call) -> None:
        """Do the first call of a worker, which may be released before this begins."""
        worker, core, begun = hosted.worker, hosted.core, time.monotonic()
        unwanted = [pickle.dumps(Cancel(ticket)) for ticket in call.unwanted]
        answer: bytes | WorkerError
        try:
            exchange = self._in_thread(worker.exchange, *unwanted, call.message)
            answer = await asyncio.wait_for(exchange, call.deadline_s)
        except TimeoutError:
            worker.interrupt()
            answer = WorkerOverdue(f"worker {hosted.worker_id} took longer than {call.deadline_s:g} s")
        except (EOFError, OSError):
            code = await self._in_thread(worker.exit_code)
            answer = WorkerCrashed(f"worker {hosted.worker_id} crashed with exit code {code}", code)
        seconds = time.monotonic() - begun
        core.running -= 1
        core.busy_s += seconds
        hosted.running = False
        if hosted.error is not None:  # released meanwhile
            self._go_on(self._clean_up(hosted), self._tasks)
        elif isinstance(answer, bytes):
            self._end_call(hosted, seconds, answer)
        else:
            self._fail(hosted, answer, seconds)
        self._run_next(core)

    def _end_call(self, hosted: _Hosted, seconds: float, answer: bytes | WorkerError) -> None:
        """Take the first call of a worker away and answer it."""
        call = hosted.calls.popleft()
        if not call.answer.done():  # else whoever asked has given up
            if isinstance(answer, bytes):
                call.answer.set_result(answer)
            else:
                call.answer.set_exception(answer)
        hosted.experiment.share.ends(seconds)
        hosted.experiment.num_done += isinstance(answer, bytes)
        hosted.experiment.used_s += seconds

    def _fail(self, hosted: _Hosted, error: WorkerError, seconds: float = 0.0) -> None:
        """End all calls of a worker that is no more."""
        hosted.error = hosted.error or error
        while hosted.calls:
            self._end_call(hosted, seconds, hosted.error)
            seconds = 0.0

    async def _clean_up(self, hosted: _Hosted) -> None:
        """End the process of a released worker: an idle one leaves by itself and takes its scratch folder along."""
        await self._in_thread(hosted.worker.stop, time.monotonic() + _STOP_TIMEOUT_S)
        await self._in_thread(sweep_abandoned)

    def _go_on(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        """Do something without anybody waiting for it."""
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)
