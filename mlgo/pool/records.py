"""Files of records that several processes append to: what is known of a module or a unit, shared by runs.

A file is a sequence of records, each ``magic (4) | payload length (u32) | CRC-32 of the payload (u32) | payload``, all
little-endian. The first payload begins with 16 random bytes, which tell the file from one of the same name that was
made anew. A writer holds a lock on the file and first reads what others have appended. A writer killed in the middle
leaves a record cut short, which the next one removes.

Files may come from elsewhere, and a checksum says nothing about who wrote them. So whoever decodes a payload checks all
that later code relies on, and a record never expands to more than a fixed multiple of its length.
"""

import contextlib
import errno
import os
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from mlgo.base.config import ReplayConfig
from mlgo.base.files import MAX_FILE_BYTES, content_hash, locked, open_input, read_json, write_json
from mlgo.errors import ArtifactError, ProtocolError, in_one_line

Key = TypeVar("Key")

MALFORMED = (
    *(ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError),
    *(struct.error, zlib.error, ProtocolError),
)
"""What decoding raises for bytes that are no record of this version."""

NONCE_BYTES = 16
"""Random bytes that tell a file from one of the same name that was made anew."""

KEY_NAMES = {".tree": "key.json", ".choices": "choices.json"}
"""By the suffix of such files (response trees, and outcomes under choices) the file beside them that holds their key:
what decides their content besides the module or unit. Each key has a folder of its own."""

_FRAME = struct.Struct("<4sII")
_LEVEL = 3
_MAX_EXPANSION = 100
"""Bytes of content for each compressed one. Real records stay below 30; others are stored as they are."""


def packed(data: bytes) -> bytes:
    """Compressed data, for a payload."""
    found = zlib.compress(data, _LEVEL)
    return found if len(data) <= _MAX_EXPANSION * len(found) else zlib.compress(data, 0)


def unpacked(data: bytes) -> bytes:
    """What `packed` was given; raises one of `MALFORMED`."""
    most = _MAX_EXPANSION * len(data)
    expander = zlib.decompressobj()
    found = expander.decompress(data, most + 1)
    if len(found) > most or not expander.eof or expander.unused_data:
        raise ValueError(f"content of more than {_MAX_EXPANSION} times its length, or not whole")
    return found


def frame(magic: bytes, payload: bytes) -> bytes:
    """Wrap a payload as a record."""
    return _FRAME.pack(magic, len(payload), zlib.crc32(payload)) + payload


def read_records(magic: bytes, data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield payload and end of intact records; stop at the first that is cut short or damaged."""
    offset = 0
    while offset + _FRAME.size <= len(data):
        found, length, checksum = _FRAME.unpack_from(data, offset)
        start = offset + _FRAME.size
        payload = data[start : start + length]
        if found != magic or len(payload) != length or zlib.crc32(payload) != checksum:
            return
        offset = start + length
        yield payload, offset


class RecordFile(ABC):
    """One such file, with what its payloads say, and how far this process has read it.

    Args:
        key: what decides its content besides its name, as plain JSON values; it is written beside the file.
    """

    magic: ClassVar[bytes]  # 4 bytes that name format and version

    def __init__(self, path: Path, key: Mapping[str, object]) -> None:
        self.path, self._key = path, key
        self._offset, self._identity = 0, b""

    def forget(self) -> None:
        """Start anew, as if nothing had been read: the file is another one, or damaged."""
        self._offset = 0

    @abstractmethod
    def take(self, payload: bytes) -> None:
        """Take in a payload, all of which are given in order; raises one of `MALFORMED`."""

    def read(self) -> None:
        """Read what has been appended since the last look; everything is forgotten when there is no such file."""
        try:
            with open_input(self.path, MAX_FILE_BYTES) as file:
                has_grown = self._catch_up(file.fileno())
        except FileNotFoundError:
            self.forget()
            return
        if has_grown:
            with contextlib.suppress(OSError):  # not where it may only be read
                os.utime(self.path)  # recently used

    @contextmanager
    def writing(self) -> Iterator[Callable[[Sequence[bytes]], None]]:
        """Lock the file, made if need be, and read what others have appended; gives what appends payloads.

        All is forgotten where this block raises: what was taken in may not be on disk.
        """
        key_path = self.path.parent / KEY_NAMES[self.path.suffix]
        try:
            if not key_path.exists():
                write_json(key_path, self._key)
            with locked(self.path) as descriptor:
                self._catch_up(descriptor)
                yield lambda payloads: self._append(descriptor, payloads)
        except BaseException as error:
            self.forget()
            if isinstance(error, OSError):
                raise ArtifactError(f"cannot write {self.path}: {error.strerror or error}") from error
            raise

    def _append(self, descriptor: int, payloads: Sequence[bytes]) -> None:
        """Write payloads that are known already; they are not given to `take`."""
        first, *others = payloads
        if self._offset == 0:
            first = os.urandom(NONCE_BYTES) + first
        data = b"".join(frame(self.magic, payload) for payload in (first, *others))
        os.ftruncate(descriptor, self._offset)  # what a killed writer left unfinished
        if os.pwrite(descriptor, data, self._offset) != len(data):
            os.ftruncate(descriptor, self._offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._identity = _identity(descriptor)
        self._offset += len(data)

    def _catch_up(self, descriptor: int) -> bool:
        size, identity = os.fstat(descriptor).st_size, _identity(descriptor)
        if self._identity != identity or size < self._offset:  # new, or pruned in the meantime
            self.forget()
        self._identity = identity
        data = os.pread(descriptor, size - self._offset, self._offset)
        begin, read = self._offset, 0
        for payload, end in read_records(self.magic, data):
            try:
                self.take(payload if self._offset else payload[NONCE_BYTES:])
            except MALFORMED as error:
                self.forget()
                raise ArtifactError(self._damage(begin + read, f" ({in_one_line(error)})")) from error
            read = end
            self._offset = begin + read
        if read < len(data) and not self._is_cut_short(data[read:]):
            raise ArtifactError(self._damage(self._offset))
        return read > 0

    def _is_cut_short(self, rest: bytes) -> bool:
        """Whether this can be the beginning of a record whose writer was killed."""
        if len(rest) < _FRAME.size:
            return self.magic.startswith(rest[:4])
        magic, length, checksum = _FRAME.unpack_from(rest)
        payload = memoryview(rest)[_FRAME.size :]
        # A bit of the length may have changed: the payload is there.
        is_whole = any(zlib.crc32(payload[: length ^ 1 << bit]) == checksum for bit in range(32))
        return magic == self.magic and len(payload) < length and not is_whole

    def _damage(self, position: int, reason: str = "") -> str:
        return f"{self.path} is damaged at byte {position}{reason}; delete it, it will be made anew"


def _identity(descriptor: int) -> bytes:
    return os.pread(descriptor, _FRAME.size + NONCE_BYTES, 0)


def record_files(root: Path) -> list[Path]:
    """All files of all keys, least recently used first."""
    found = []
    for path in root.glob("*/*"):
        if path.suffix in KEY_NAMES:
            with contextlib.suppress(FileNotFoundError):  # pruned by another process
                found.append((path.stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(found)]


def prune(root: Path, max_bytes: int) -> list[Path]:
    """Delete the least recently used files until the rest is at most ``max_bytes``; return what was deleted."""
    sizes = {path: path.stat().st_size for path in record_files(root) if path.exists()}
    excess = sum(sizes.values()) - max_bytes
    deleted = []
    for path, size in sizes.items():
        if excess <= 0:
            break
        _delete(path)
        excess -= size
        deleted.append(path)
    return deleted


def known_compiles(folder: Path, config: ReplayConfig) -> Path | None:
    """Folder of what compiles have shown, pruned to the configured size; None where the configuration turns it off."""
    if config.enabled:
        prune(folder, int(config.max_disk_gb * 1e9))
    return folder if config.enabled else None


def current_keys(root: Path, suffix: str, decode: Callable[[Any], Key | None]) -> list[Key]:
    """Keys under ``root`` of files with this suffix that this version reads; of others ``decode`` makes None."""
    found = (_read_key(path, decode) for path in sorted(root.glob(f"*/{KEY_NAMES[suffix]}")))
    return [key for key in found if key is not None]


def outdated_keys(root: Path, suffix: str, decode: Callable[[Any], object]) -> list[Path]:
    """Folders of the other keys, see `current_keys`. A damaged key says nothing about the files beside it."""
    found = []
    for path in sorted(root.glob(f"*/{KEY_NAMES[suffix]}")):
        with contextlib.suppress(ArtifactError):
            if _read_key(path, decode) is None:
                found.append(path.parent)
    return found


def _read_key(path: Path, decode: Callable[[Any], Key | None]) -> Key | None:
    value = read_json(path)
    try:
        if content_hash(value) != path.parent.name:
            raise ValueError("it is not what its folder is named by")
        return decode(value)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(
            f"{path} is not the key of the files beside it ({in_one_line(error)}); delete it, a run makes it anew"
        ) from error


def delete_key(folder: Path) -> None:
    """Delete all files of one key."""
    for path in folder.iterdir():
        if path.suffix in KEY_NAMES:
            _delete(path)
    for name in KEY_NAMES.values():
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody has made a file anew
        folder.rmdir()


def _delete(path: Path) -> None:
    with locked(path):  # no writer is in the middle of it
        path.unlink(missing_ok=True)
