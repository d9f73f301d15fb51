"""Files written by one background thread, at moments when the learner has nothing else to do.

A write in the learner's own thread delays its step. One in another thread does so too while the learner computes,
because the two share an interpreter lock. So writes are queued, and done while the learner waits for compile results.
"""

import contextlib
import signal
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType

from mlgo.core.errors import ArtifactError, MlgoError
from mlgo.execution.worker import HELD_BACK

Write = Callable[[Path], object]
"""Fills the place that it is given."""


class BackgroundSaver:
    """A queue of writes and the thread that does them, from the first of them to the end of the ``with`` block.

    Leaving the block, by an exception or Ctrl-C too, writes what is still queued.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Path, Write]] = deque()
        self._changed = Condition()
        self._allowed = self._writing = False
        self._closing = True  # until the block is entered
        self._error: MlgoError | None = None
        self._thread: Thread | None = None

    def save(self, path: Path, write: Write) -> None:
        """Queue a write; nothing happens to ``path`` before `writing_allowed`, `flush` or `close`.

        Args:
            path: file or folder.
            write: called with ``path`` in the other thread; what it captures must not change any more.

        Raises:
            ArtifactError: an earlier write failed.
        """
        self._raise_error()
        if self._closing:
            raise RuntimeError("nothing can be saved outside the saver's block: no thread would write it")
        if self._thread is None:
            self._thread = Thread(target=self._run, name="saver")
            self._thread.start()
        with self._changed:
            self._waiting.append((path, write))
            self._changed.notify_all()

    @contextlib.contextmanager
    def writing_allowed(self) -> Iterator[None]:
        """Let queued writes start within this block; one that has started runs to its end."""
        self._allow(True)
        try:
            yield
        finally:
            self._allow(False)

    def flush(self) -> None:
        """Wait until everything is written.

        Raises:
            ArtifactError: a write failed; names its file.
        """
        with self.writing_allowed(), self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._writing)
        self._raise_error()

    def close(self) -> None:
        """Write what is queued and end the thread; once more does nothing.

        Raises:
            ArtifactError: a write failed; names its file.
        """
        with self._changed:
            self._closing = True  # from here on the thread ends by itself, even if waiting for it is interrupted
            self._changed.notify_all()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self._thread = None
        self._raise_error()

    def __enter__(self) -> "BackgroundSaver":
        self._closing = False
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

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)  # they are the main thread's, which may hold them back
        while (following := self._next()) is not None:
            path, write = following
            try:
                write(path)
            except MlgoError as error:
                self._keep(error)
            except BaseException as error:
                self._keep(ArtifactError(f"cannot write {path}: {error!r}"), error)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _next(self) -> tuple[Path, Write] | None:
        """The next write as soon as it may start; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or (self._allowed and self._waiting))
            if not self._waiting:
                return None
            self._writing = True
            return self._waiting.popleft()

    def _allow(self, allowed: bool) -> None:
        with self._changed:
            self._allowed = allowed
            self._changed.notify_all()

    def _keep(self, error: MlgoError, cause: BaseException | None = None) -> None:
        error.__cause__ = cause
        self._error = self._error or error

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
