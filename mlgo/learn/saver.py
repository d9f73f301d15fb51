"""Files that are written beside a learner, while it waits.

A save that the learner does itself costs a step its time. Written at just any moment by another thread it costs more,
because the two share an interpreter lock. So writes are queued, and done while the learner waits for compile results.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from types import TracebackType

from mlgo.errors import ArtifactError, MlgoError
from mlgo.pool.worker import HELD_BACK

Write = Callable[[Path], object]
"""Fills the place that it is given."""


class BackgroundSaver:
    """A queue of writes and the thread that does them, from the first of them to the end of the ``with`` block.

    Leaving the block, by an exception or Ctrl-C too, writes what is still queued.
    """

    def __init__(self) -> None:
        self._allowed = Event()
        self._queued: list[Future[None]] = []
        self._executor: ThreadPoolExecutor | None = None

    def save(self, path: Path, write: Write) -> None:
        """Queue a write; nothing happens to ``path`` before `writing_allowed`, `flush` or `close`.

        Args:
            path: file or folder.
            write: called with ``path`` in the other thread; what it captures must not change any more.

        Raises:
            ArtifactError: an earlier write failed.
        """
        self._raise_error()
        if self._executor is None:
            raise RuntimeError("nothing can be saved outside the saver's block: no thread would write it")
        self._queued.append(self._executor.submit(self._write, path, write))

    @contextlib.contextmanager
    def writing_allowed(self) -> Iterator[None]:
        """Let queued writes start within this block; one that has started runs to its end."""
        self._allowed.set()
        try:
            yield
        finally:
            self._allowed.clear()

    def flush(self) -> None:
        """Wait until everything is written.

        Raises:
            ArtifactError: a write failed; names its file.
        """
        with self.writing_allowed():
            wait(self._queued)
        self._raise_error()

    def close(self) -> None:
        """Write what is queued and end the thread; once more does nothing.

        Raises:
            ArtifactError: a write failed; names its file.
        """
        executor, self._executor = self._executor, None
        if executor is not None:
            self._allowed.set()  # for good: the thread ends by itself, even if waiting for it is interrupted
            executor.shutdown()
        self._raise_error()

    def __enter__(self) -> "BackgroundSaver":
        # Signals are the main thread's, which may hold them back.
        self._executor = ThreadPoolExecutor(1, "saver", signal.pthread_sigmask, (signal.SIG_BLOCK, HELD_BACK))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ArtifactError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what ended the block matters more

    def _write(self, path: Path, write: Write) -> None:
        self._allowed.wait()
        try:
            write(path)
        except MlgoError:
            raise
        except BaseException as error:
            raise ArtifactError(f"cannot write {path}: {error!r}") from error

    def _raise_error(self) -> None:
        """Raise the first error among the writes that are done, once."""
        done = [one for one in self._queued if one.done()]
        self._queued = [one for one in self._queued if one not in done]
        for error in filter(None, (one.exception() for one in done)):
            raise error
