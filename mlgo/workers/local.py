"""A pool of processes that survives the death of any of them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any, Generic, TypeVar

from mlgo.scratch import sweep_abandoned
from mlgo.workers.cores import warn_without_affinity
from mlgo.workers.serving import HELD_BACK

JobType = TypeVar("JobType")
ResultType = TypeVar("ResultType")

_STOP_TIMEOUT_S = 5.0


class WorkerLost:
    """Stands for the result of a job whose worker died."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code


class LocalPool(Generic[JobType, ResultType]):
    """Workers that each run one handler in a process of their own.

    Processes start from nothing, so they hold only what the handler imports. A worker that dies loses its job
    (reported as `WorkerLost`) and is replaced.

    Args:
        num_workers: processes.
        make_handler: called once in each worker; returns the function that jobs go through. Must be picklable.
    """

    def __init__(self, num_workers: int, make_handler: Callable[[], Callable[[JobType], ResultType]]) -> None:
        warn_without_affinity()
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
        self._make_handler = make_handler
        self._process: subprocess.Popen[bytes] | None = None
        self.pipe, self._theirs = Pipe()

    def send(self, job: Any) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death shows when its result is read
            if self._process is None:
                self._start()
                self.pipe.send(self._make_handler)
            self.pipe.send(job)

    def _start(self) -> None:
        # Not by multiprocessing: its children import the main program, with all that only the learner needs.
        descriptor = self._theirs.fileno()
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from mlgo.workers.serving import serve; serve({descriptor}, {os.getpid()})"
        )
        # Ctrl-C and SIGTERM wait while it starts: half-started, it could be neither used nor killed. It inherits
        # this, so a Ctrl-C in the terminal does not meet it before it ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[descriptor]
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._theirs.close()

    def receive(self) -> Any:
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            assert self._process is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
            exit_code = self._process.returncode
            self.kill()
            return WorkerLost(exit_code)

    def stop(self, deadline: float) -> None:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._theirs.close()
        self.pipe.close()
