"""Checkpoints, read back exactly, and files that are written in the background while a learner waits for compiles."""

import contextlib
import io
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import fields, is_dataclass
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from mlgo.base.files import write_bytes
from mlgo.errors import ArtifactError, MlgoError
from mlgo.pool.worker import HELD_BACK


def save_state(state: Any, path: Path, extra: Any = None) -> None:
    """Replace a checkpoint; a kill at any moment leaves the old or the new one."""
    numbers: list[bytes] = []
    record = json.dumps({"state": _plain(state, numbers), "extra": extra}).encode()
    buffer = io.BytesIO()
    np.savez(buffer, record=np.frombuffer(record, np.uint8), numbers=np.frombuffer(b"".join(numbers), np.uint8))
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, *kinds: type) -> tuple[Any, Any]:
    """Read a state, its sequences as tuples, and what was saved beside it; two times None when there is no file."""
    if not path.exists():
        return None, None
    try:
        with np.load(path, allow_pickle=False) as data:
            record, numbers = json.loads(data["record"].tobytes()), io.BytesIO(data["numbers"].tobytes())
    except Exception as error:  # a damaged zip raises half a dozen types
        raise ArtifactError(f"checkpoint {path} is damaged ({error}); delete it to start anew") from error
    try:
        return _restored(record["state"], {kind.__name__: kind for kind in kinds}, numbers), record["extra"]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"checkpoint {path} is not of this version ({error}); delete it to start anew") from error


def _plain(value: Any, numbers: list[bytes]) -> Any:
    """A JSON value in which one-entry objects tell what was no JSON; arrays go to ``numbers``, in order."""
    if isinstance(value, np.ndarray):
        numbers.append(value.tobytes())
        return {"array": [value.dtype.str, value.shape]}
    if is_dataclass(value):
        return {type(value).__name__: {one.name: _plain(getattr(value, one.name), numbers) for one in fields(value)}}
    if isinstance(value, Mapping):
        return {"mapping": {key: _plain(one, numbers) for key, one in value.items()}}
    return [_plain(one, numbers) for one in value] if isinstance(value, list | tuple) else value


def _restored(value: Any, kinds: Mapping[str, type], numbers: io.BytesIO) -> Any:
    if isinstance(value, list):
        return tuple(_restored(one, kinds, numbers) for one in value)
    if not isinstance(value, dict):
        return value
    ((what, content),) = value.items()
    if what == "array":
        dtype, shape = np.dtype(content[0]), tuple(content[1])
        return np.frombuffer(numbers.read(dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape).copy()
    parts = {key: _restored(one, kinds, numbers) for key, one in content.items()}
    return parts if what == "mapping" else kinds[what](**parts)


class BackgroundSaver:
    """A queue of writes and the thread that does them, from the first of them to the end of the ``with`` block.

    Leaving the block, by an exception or Ctrl-C too, writes what is still queued.
    """

    def __init__(self) -> None:
        self._allowed = Event()
        self._queued: list[Future[None]] = []
        self._executor: ThreadPoolExecutor | None = None

    def save(self, path: Path, write: Callable[[Path], object]) -> None:
        """Queue a write; nothing happens to ``path`` before `writing_allowed`, `flush` or the end of the block.

        ``write`` is called with ``path`` in the other thread; what it captures must not change any more.
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
        """Wait until everything is written."""
        with self.writing_allowed():
            wait(self._queued)
        self._raise_error()

    def __enter__(self) -> "BackgroundSaver":
        # Signals are the main thread's, which may hold them back.
        self._executor = ThreadPoolExecutor(1, "saver", signal.pthread_sigmask, (signal.SIG_BLOCK, HELD_BACK))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        executor, self._executor = self._executor, None
        assert executor is not None
        self._allowed.set()  # for good: the thread ends by itself, even if waiting for it is interrupted
        executor.shutdown()
        try:
            self._raise_error()
        except ArtifactError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what ended the block matters more

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
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
