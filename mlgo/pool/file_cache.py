"""Files for machines that do not see those of the driver: fetched once for each machine, when first needed."""

import fcntl
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mlgo.base.files import content_hash, place


class FileStamp(NamedTuple):
    """What stands for a file's path in a message.

    Attributes:
        path: where the driver has it.
        num_bytes: its size.
        mtime_ns: when it was last changed.
        mode: its permissions.
    """

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


class FileCache:
    """The driver's files on another machine, shared by all workers there.

    Args:
        folder: of this run on this machine.
        read: gives the content of one of the driver's files.
    """

    def __init__(self, folder: Path, read: Callable[[FileStamp], bytes]) -> None:
        self._folder, self._read = folder, read

    def local(self, stamp: FileStamp) -> Path:
        """A file with the content of the driver's; the very same where this machine sees it."""
        original = Path(stamp.path)
        if original.is_file() and FileStamp.of(original) == stamp:
            return original
        copy = self._folder / content_hash(stamp)[:16] / original.name
        if copy.exists():
            return copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        with (copy.parent / "lock").open("w") as lock:  # one fetches it, its neighbours wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not copy.exists():
                place(copy, self._read(stamp), stamp.mode)
        return copy
