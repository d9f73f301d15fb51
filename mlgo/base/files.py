"""Files written whole or not at all, JSON, and hashes of content."""

import contextlib
import errno
import fcntl
import functools
import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.errors import ArtifactError, in_one_line

MAX_TEXT_BYTES = 1 << 26
"""Bytes of text from outside that are read into memory at once."""
MAX_FILE_BYTES = 1 << 37
"""Bytes of a file from outside that is read piece by piece."""
_MAX_INPUT_BYTES = 1 << 31
_MAX_ARRAY_BYTES = 1 << 30
_MAX_DEPTH, _MAX_VALUES = 100, 1 << 24
_MAX_PATH, _MAX_NAME, _MAX_PARTS = 3072, 240, 200
"""Bytes of a foreign path and of its parts: less than a file system takes, as temporary files have longer names."""
_MAX_LINKED = 1 << 14
"""Files that links may add to a folder: a few that lead to each other make any number of paths."""
_HASH, _SHA256 = "sha256", re.compile("[0-9a-f]{64}")
_LOCK_TIMEOUT_S, _LOCK_POLL_S = 600.0, 0.005
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]+\.tmp")


def write_json(path: Path, value: Any) -> None:
    """Write JSON as `json_text` has it."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Indented JSON with a closing line feed, keys in the given order."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object as `record_text` has it."""
    write_text(path, record_text(record))


def record_text(record: Mapping[str, Any]) -> str:
    """A JSON object as text, with a hash of the rest as its last member."""
    return json_text({**record, _HASH: content_sha256(json.loads(json_text(record)))})


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object without its hash, which is checked if there is one; ArtifactError if it is damaged."""
    record = read_json(path)
    with readable(path, "what was written", ValueError, RecursionError):
        return checked_record(record)


def checked_record(record: Any) -> dict[str, Any]:
    """What `record_text` was given, by what JSON makes of it; ValueError where it is no object or has changed."""
    if not isinstance(record, dict):
        raise ValueError("no object")
    content = {name: value for name, value in record.items() if name != _HASH}
    last = next(reversed(content.values()), "")  # the hash, if it has lost its name
    has_changed = record[_HASH] != content_sha256(content) if _HASH in record else _SHA256.fullmatch(str(last))
    if has_changed:
        raise ValueError("its content has another hash")
    return content


@contextlib.contextmanager
def readable(path: Path, kind: str, *damages: type[Exception]) -> Iterator[None]:
    """Say in one line why a file cannot be read.

    Args:
        kind: what the file is not where reading raises one of ``damages``.

    Raises:
        ArtifactError: the file is missing, damaged, or not to be had.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing; run the stage that makes it") from error
    except damages as error:
        raise ArtifactError(f"{path} is not {kind} ({in_one_line(error)}); delete it and run its stage") from error
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error


def open_input(path: Path, max_bytes: int = _MAX_INPUT_BYTES) -> io.BufferedReader:
    """Open a file that may come from others: nothing but a regular file, so nobody waits for a FIFO or a device.

    Raises:
        OSError: it cannot be opened, is no regular file, or is longer than ``max_bytes``; ``strerror`` says which.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError as error:  # NUL, or half a character
        raise OSError(errno.EINVAL, "no file has such a name", str(path)) from error
    found, why = os.fstat(descriptor), ""
    if not stat.S_ISREG(found.st_mode):
        why = "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no regular file"
    elif found.st_size > max_bytes:
        why = f"it has {found.st_size:,} bytes, where {max_bytes:,} are the most"
    else:
        try:
            os.pread(descriptor, 1, 0)
        except OSError as error:  # of a damaged disk, or of a file of the system; later errors would not name it
            why = str(error.strerror)
    if why:
        os.close(descriptor)
        raise OSError(errno.EINVAL, why, str(path))
    return os.fdopen(descriptor, "rb")


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder that may come from others; what links lead to stands in their place.

    Left out are links in circles, and what is neither file nor folder.

    Raises:
        ArtifactError: links lead to very many files, or something cannot be read.
    """
    num_linked, real = 0, functools.cache(os.path.realpath)

    def left_out(folder: str, names: list[str]) -> list[str]:
        nonlocal num_linked
        here = Path(folder)
        if real(here) != str(Path(real(source), here.relative_to(source))):
            num_linked += len(names)
        if num_linked > _MAX_LINKED:
            raise ArtifactError(f"links in {source} lead to more than {_MAX_LINKED:,} files; remove some")
        above = {*map(real, (here, *here.parents))}
        folders = {one.name for one in map(here.joinpath, names) if is_folder(one) and real(one) not in above}
        return [name for name in names if name not in folders and not is_file(here / name)]

    try:
        shutil.copytree(source, target, ignore=left_out, dirs_exist_ok=True)
    except (shutil.Error, RecursionError) as error:
        raise ArtifactError(f"{source} cannot be copied: {str(error)[:300]}") from error


def is_file(path: Path) -> bool:
    """Whether there is such a file; it may have a name that no file has."""
    return os.path.isfile(path)  # noqa: PTH113 (that of pathlib raises for long names)


def is_folder(path: Path) -> bool:
    """Whether there is such a folder, see `is_file`."""
    return os.path.isdir(path)  # noqa: PTH112


def read_input(path: Path, max_bytes: int = _MAX_INPUT_BYTES) -> bytes:
    """Content of a file that may come from others, see `open_input`."""
    with open_input(path, max_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size) or b""


def is_shallow(value: Any) -> bool:
    """Whether nested lists and objects, as those of JSON, are no deeper and no more than code may walk."""
    level, num_values = [value], 0
    for _ in range(_MAX_DEPTH):
        parts = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = []
        for part in parts:
            num_values += len(part)
            if num_values > _MAX_VALUES:
                return False
            level += [one for one in part if isinstance(one, dict | list)]
        if not level:
            return True
    return False


def parse_json(text: str | bytes) -> Any:
    """JSON that may come from others; `ValueError` for what is none, has infinite numbers, or is nested too deeply."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        value = None
    else:
        if is_shallow(value):
            return value
    raise ValueError(f"nested deeper than {_MAX_DEPTH}, or too large")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is no number of JSON")
    return value


def read_json(path: Path) -> Any:
    """Read JSON."""
    with readable(path, "JSON", ValueError):
        return parse_json(read_input(path, MAX_TEXT_BYTES).decode())


def read_array(path: Path) -> np.ndarray:
    """Read the array of an ``.npy`` file; never takes more memory than the file is long.

    Returns:
        The array in memory, of the file's dtype and shape [...]; never Python objects.
    """
    # NumPy reads the header as Python text, so there is no list of what it may raise.
    with readable(path, "a readable array", Exception), np.errstate(over="ignore"):  # of a size that no file has
        open_input(path, _MAX_ARRAY_BYTES).close()
        mapped = np.lib.format.open_memmap(path, mode="r")
        if not mapped.dtype.itemsize:  # any number of elements is in such a file
            raise ValueError("elements without bytes")
        return np.array(mapped)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes atomically."""
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def write_atomically(path: Path, write: Callable[[Path], object], *, is_folder: bool = False) -> None:
    """Let ``write`` fill a temporary file or folder beside ``path``, then rename it into place."""
    draft = Draft(path, is_folder=is_folder)
    with draft.filling():
        write(draft.path)
    draft.place()


def place(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file that several processes may write at once: whole, by one of them; one that is there already stays.

    Raises:
        OSError: the place is not writable, or full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).chmod(mode)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()


@contextlib.contextmanager
def locked(path: Path, kind: int = os.O_RDWR | os.O_CREAT, within_s: float = _LOCK_TIMEOUT_S) -> Iterator[int]:
    """Let one process at a time in; gives the descriptor of the lock.

    Args:
        path: the lock: a file, which is made where it is missing and may be removed by whoever holds it; with
            ``os.O_DIRECTORY`` a folder.

    Raises:
        ArtifactError: another has held it for so many seconds, not counting those in which this process was stopped.
        OSError: there is no such lock, and it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(1 + math.ceil(within_s / _LOCK_POLL_S)):
        descriptor = os.open(path, kind | os.O_CLOEXEC, 0o644)
        try:
            if _try_lock(descriptor) and _is_still(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        time.sleep(_LOCK_POLL_S)
    raise ArtifactError(f"another process has held the lock {path} for {within_s:g} seconds; end it and run again")


def _try_lock(descriptor: int) -> bool:
    """Take the lock, unless somebody else holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file still bears this name; it may have been removed while we waited for its lock."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


class Draft:
    """A file or folder, ``path``, that is being written and shall become ``target``, whole or not at all.

    Several threads and processes may draft the same target; the last to finish wins. A draft is locked while its writer
    lives. One that a kill has left behind is removed by the next process that writes the same target.
    """

    def __init__(self, target: Path, *, is_folder: bool = False) -> None:
        self._target, self._is_folder = target, is_folder
        self._descriptor = -1
        if not target.name:
            raise ArtifactError(f"cannot write {target}: it is a folder; name a file in it")
        self.path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        with self.filling():
            if not is_folder and target.exists() and not target.is_file():  # a rename would replace a device, too
                raise OSError(errno.EEXIST, "something else than a file is there")
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(target)
            if is_folder:
                self.path.mkdir()
            kind = os.O_DIRECTORY if is_folder else os.O_CREAT | os.O_EXCL | os.O_RDWR
            self._descriptor = os.open(self.path, kind | os.O_CLOEXEC, 0o666)
            with contextlib.suppress(OSError):  # a file system without locks: nothing is ever removed there
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def filling(self) -> Iterator[None]:
        """Work on the draft; it is removed when that fails."""
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                self.discard()
            if error.errno == errno.ENOSPC:
                raise ArtifactError(
                    f"no space left on the device while writing {self._target}; free some and run again"
                ) from error
            raise ArtifactError(f"cannot write {self._target}: {error.strerror or error}") from error
        except BaseException:
            self.discard()
            raise

    def place(self) -> None:
        """Give the draft its name."""
        with self.filling():
            if self._is_folder and self._target.exists():
                shutil.rmtree(self._target)
            self.path.replace(self._target)
        self._unlock()

    def discard(self) -> None:
        """Remove the draft."""
        self._unlock()
        _remove(self.path)

    def _unlock(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_leftovers: dict[Path, dict[str, list[Path]]] = {}
"""Drafts by target name that each folder held when this process first wrote there. A list for each folder and not for
each target, because some folders hold thousands of files."""


def _remove_leftovers(target: Path) -> None:
    """Remove drafts of a target whose writers are gone."""
    folder = target.parent
    if folder not in _leftovers:
        found: dict[str, list[Path]] = {}
        for entry in os.scandir(folder):
            match = _TEMPORARY.fullmatch(entry.name)
            if match and not entry.is_symlink():
                found.setdefault(match["name"], []).append(Path(entry.path))
        _leftovers[folder] = found
    for path in _leftovers[folder].pop(target.name, []):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
                _remove(path)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def joined(root: Path, name: str) -> Path:
    """A place inside a folder, by a name that came from outside; it need not exist.

    Raises:
        ArtifactError: the name is no relative path without ``..`` that a file system takes, or a link on the way leads
            out of the folder.
    """
    path = root / relative(name)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.path.realpath(path, strict=True)  # else links to links, too long together, count as folders
    except OSError as error:
        raise ArtifactError(f"{path} cannot be followed: {error.strerror}") from error
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise ArtifactError(f"{path} leads out of {root} through a link; remove the link")
    return path


def beneath(name: str) -> str:
    """The name of a file inside a folder for any path, which may be absolute or have ``..``; empty if that is all."""
    return "/".join(part for part in name.split("/") if part not in ("", ".", ".."))


def relative(name: str, what: str = "name") -> str:
    """The same name, if it stays inside any folder that it is joined to; `ArtifactError` otherwise.

    Args:
        what: it is, for the message.
    """
    parts = name.split("/")
    try:
        fits = len(os.fsencode(name)) <= _MAX_PATH and len(parts) <= _MAX_PARTS
        fits = fits and max(len(os.fsencode(part)) for part in parts) <= _MAX_NAME
    except UnicodeEncodeError:  # half a character
        fits = False
    if not (fits and name) or "\0" in name or name.startswith("/") or ".." in parts:
        raise ArtifactError(f"{what} {name[:100]!r} leads out of its folder, or is none that a file system takes")
    return name


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def hash64(data: bytes) -> int:
    """64 bits of BLAKE2b, unsigned, for tables that compare many names or texts."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def content_hash(value: Any) -> str:
    """Short hash of a JSON value, for keys and folder names."""
    return content_sha256(value)[:16]


def content_sha256(value: Any) -> str:
    """SHA-256 of a JSON value, hexadecimal; equal values have the same."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@functools.cache
def source_hash() -> str:
    """Hash of this package's own source, for what must not outlive a change of the code."""
    root = Path(__file__).parents[1]
    return content_hash([[str(path.relative_to(root)), file_sha256(path)] for path in sorted(root.rglob("*.py"))])


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal."""
    try:
        with open_input(path, MAX_FILE_BYTES) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error


_UNSHOWN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
"""What a terminal obeys rather than shows, line ends among it, and halves of characters, which cannot be written."""


def shown(text: str, unchanged: str = "") -> str:
    """Text that may come from others, as a terminal may show it: on one line, with escapes as Python writes them."""
    return _UNSHOWN.sub(lambda match: match[0] if match[0] in unchanged else ascii(match[0])[1:-1], text)
