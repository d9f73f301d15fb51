"""A pool of processes that survives the death of any of them."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Generic, TypeVar

from mlgo.compiler.process import die_with_parent
from mlgo.scratch import remove_own_scratch, sweep_abandoned
from mlgo.workers.cores import claim_core

JobType = TypeVar("JobType")
ResultType = TypeVar("ResultType")

_STOP_TIMEOUT_S = 5.0


class WorkerLost:
    """Stands for the result of a job whose worker died."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code


class LocalPool(Generic[JobType, ResultType]):
    """Workers that each run one handler in a process of their own.

    Processes are spawned, not forked, so they hold only what the handler imports. A worker that dies loses its job
    (reported as `WorkerLost`) and is replaced.

    Args:
        num_workers: processes.
        make_handler: called once in each worker; returns the function that jobs go through. Must be picklable.
    """

    def __init__(self, num_workers: int, make_handler: Callable[[], Callable[[JobType], ResultType]]) -> None:
        self._make_handler = make_handler
        self._workers = [_Worker(make_handler) for _ in range(max(1, num_workers))]

    @property
    def num_workers(self) -> int:
        """Processes in the pool."""
        return len(self._workers)

    def map(self, jobs: Iterable[JobType]) -> Iterator[tuple[int, ResultType | WorkerLost]]:
        """Run jobs and yield ``(position, result)`` as they end.

        Raises:
            Exception: whatever a handler raised; such an exception is a defect, not a failed compile.
        """
        waiting = enumerate(jobs)  # taken one by one, so that a job may depend on what earlier ones gave
        busy: dict[Connection, tuple[_Worker, int]] = {}
        idle = deque(self._workers)
        try:
            while True:
                while idle and (following := next(waiting, None)) is not None:
                    worker = idle.popleft()
                    worker.send(following[1])
                    busy[worker.pipe] = (worker, following[0])
                if not busy:
                    return
                for pipe in wait(list(busy)):
                    assert isinstance(pipe, Connection)
                    worker, position = busy.pop(pipe)
                    result = worker.receive()
                    if isinstance(result, WorkerLost):
                        worker = self._replace(worker)
                    idle.append(worker)
                    if isinstance(result, BaseException):
                        raise result
                    yield position, result
        finally:
            for worker, _ in busy.values():  # the caller gave up: their answers must not meet the next jobs
                worker.kill()
                self._replace(worker)

    def _replace(self, worker: "_Worker") -> "_Worker":
        fresh = _Worker(self._make_handler)
        self._workers[self._workers.index(worker)] = fresh
        return fresh

    def close(self) -> None:
        """Stop all workers and whatever they run, and remove what killed ones left behind."""
        for worker in self._workers:
            worker.pipe.close()  # an idle worker sees the end of its pipe and returns
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for worker in self._workers:
            worker.stop(deadline)
        sweep_abandoned()

    def __enter__(self) -> "LocalPool[JobType, ResultType]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Worker:
    """One process, started when its first job comes."""

    def __init__(self, make_handler: Callable[[], Callable[[Any], Any]]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, self._theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._theirs, make_handler, os.getpid()), daemon=True)

    def send(self, job: Any) -> None:
        if self._process.pid is None:
            self._process.start()
            self._theirs.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death shows when its result is read
            self.pipe.send(job)

    def receive(self) -> Any:
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_STOP_TIMEOUT_S)
            exit_code = self._process.exitcode
            self.kill()
            return WorkerLost(exit_code)

    def stop(self, deadline: float) -> None:
        if self._process.pid is not None:
            self._process.join(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        if self._process.pid is not None:
            with contextlib.suppress(ValueError):  # closed before
                self._process.kill()
                self._process.join()
                self._process.close()
        self._theirs.close()
        self.pipe.close()


def _serve(pipe: Connection, make_handler: Callable[[], Callable[[Any], Any]], parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    die_with_parent()
    if os.getppid() != parent:  # it died before the kernel knew our wish
        return
    claim_core()
    handler = make_handler()
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):  # the parent has closed the pipe
        while True:
            job = pipe.recv()
            try:
                result = handler(job)
            except Exception as error:
                result = error
            pipe.send(result)
    remove_own_scratch()  # multiprocessing skips what atexit would do
