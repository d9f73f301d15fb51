"""Files for machines that do not see those of the driver: fetched once for each machine, when first needed."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mlgo.base.files import content_hash, locked, place
from mlgo.base.scratch import leave_shared_scratch, remove_own_scratch, shared_scratch
from mlgo.errors import ArtifactError, MlgoError, WorkerError
from mlgo.pool.cluster import LOCAL_INSTEAD, versions
from mlgo.pool.cores import claim_core
from mlgo.pool.worker import Answer, Raised, Runner


class FileStamp(NamedTuple):
    """Stands for a file's path in a message."""

    path: str
    num_bytes: int
    mtime_ns: int
    mode: int

    @classmethod
    def of(cls, path: Path) -> "FileStamp":
        """Stamp of a file that is there."""
        status = path.stat()
        return cls(str(path.absolute()), status.st_size, status.st_mtime_ns, status.st_mode & 0o777)


def pack(value: Any) -> bytes:
    """Pickle a value; paths of files in it become stamps, other paths stay."""
    buffer = io.BytesIO()
    _Packer(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def unpack(data: bytes, local: Callable[[FileStamp], Path]) -> Any:
    """The value again, with paths of files where ``local`` has them."""
    return _Unpacker(io.BytesIO(data), local).load()


class _Packer(pickle.Pickler):
    def persistent_id(self, obj: Any) -> FileStamp | None:
        return FileStamp.of(obj) if isinstance(obj, Path) and obj.is_file() else None


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, local: Callable[[FileStamp], Path]) -> None:
        super().__init__(file)
        self._local = local

    def persistent_load(self, stamp: FileStamp) -> Path:
        return self._local(stamp)


def local_copy(stamp: FileStamp, folder: Path, read: Callable[[FileStamp], bytes]) -> Path:
    """The driver's file where this machine sees it, else a copy in ``folder``, which its workers share."""
    original = Path(stamp.path)
    if original.is_file() and FileStamp.of(original) == stamp:
        return original
    copy = folder / content_hash(stamp)[:16] / original.name
    if copy.exists():
        return copy
    with locked(copy.parent / "lock"):  # one fetches it, its neighbours wait
        if not copy.exists():
            place(copy, read(stamp), stamp.mode)
    return copy


class FileSource:
    """An actor on the driver's machine, in the driver's folder, that reads its files for the others.

    Files that do not change are put into Ray's object store once, from where nodes take them, also from each other.
    """

    def __init__(self, folder: str) -> None:
        os.chdir(folder)
        self._references: dict[FileStamp, Any] = {}

    def reference(self, stamp: FileStamp) -> list[Any]:
        """A file's content as an object reference, in a list, so that it is not resolved on its way."""
        import ray

        if stamp not in self._references:
            self._references[stamp] = ray.put(Path(stamp.path).read_bytes())
        return [self._references[stamp]]

    def content(self, path: str) -> bytes | None:
        """A file that grows, as it is now; None where there is none."""
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None


class RayWorker:
    """An actor that does jobs; workers of one ``run`` share a folder on each machine.

    ``source`` is the actor that reads the driver's files; None where all machines see the same folders.
    """

    def __init__(self, run: str, source: Any, folder: str) -> None:
        import ray

        self._ray, self._run, self._source, self._driver_folder = ray, run, source, folder
        self.node = f"{os.uname().nodename} ({ray.get_runtime_context().get_node_id()[:8]})"
        self._runner: Runner | None = None
        if source is not None:
            self._folder = shared_scratch(run)

    def begin(self, packed: bytes) -> tuple[str, dict[str, str], Raised | None]:
        """Make the handler; gives the node's name, what is installed on it, and why it cannot be made, if it cannot."""
        try:
            if self._source is None:
                self._go_where_the_driver_is()
            make_handler = unpack(packed, self._local)
            if self._source is not None and hasattr(make_handler, "moved_to"):
                make_handler = make_handler.moved_to(self._folder, self._content)
            if hasattr(make_handler, "check"):
                make_handler.check()
            claim_core()
            self._runner = Runner(make_handler)
        except (MlgoError, OSError) as error:
            return self.node, versions(), Raised(WorkerError(f"node {self.node}: {error}; {LOCAL_INSTEAD}"))
        return self.node, versions(), None

    def _go_where_the_driver_is(self) -> None:
        """Have relative paths mean what they mean to the driver."""
        try:
            os.chdir(self._driver_folder)
        except OSError as error:
            what = f"there is no {self._driver_folder}, where the training works ({error.strerror})"
            raise WorkerError(f"{what}; let it see that folder, set workers.files: send") from error

    def run(self, first: int, packed: bytes) -> Answer:
        """Work through a message, of whose jobs the first has this ticket."""
        assert self._runner is not None
        try:
            jobs = unpack(packed, self._local)
        except (ArtifactError, OSError) as error:
            failure = WorkerError(f"node {self.node} cannot keep files of the run: {error}; {LOCAL_INSTEAD}")
            return {first: Raised(failure)}, []
        return self._runner.work_through(jobs)

    def cancel(self, ticket: int) -> None:
        """End a job soon, if that is the one being done."""
        if self._runner is not None:
            self._runner.cancel(ticket)

    def end(self) -> None:
        """Remove what this process keeps on the machine."""
        remove_own_scratch()
        leave_shared_scratch(self._run)

    def _local(self, stamp: FileStamp) -> Path:
        return Path(stamp.path) if self._source is None else local_copy(stamp, self._folder, self._fetch)

    def _fetch(self, stamp: FileStamp) -> bytes:
        (reference,) = self._ray.get(self._source.reference.remote(stamp))
        return self._ray.get(reference)

    def _content(self, path: Path) -> bytes | None:
        return self._ray.get(self._source.content.remote(str(path)))
