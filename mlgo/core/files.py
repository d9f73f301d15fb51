"""Files written whole or not at all, JSON, and hashes of content."""

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlgo.core.errors import ArtifactError


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with a closing line feed, keys in the given order."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        ArtifactError: missing or not JSON.
    """
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing; run the stage that makes it") from error
    except ValueError as error:
        raise ArtifactError(f"{path} is not JSON ({error})") from error


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes atomically."""
    write_atomically(path, lambda temporary: _write_whole(temporary, data))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it into place.

    Raises:
        ArtifactError: the disk is full or the place is not writable. Nothing half-written stays behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with filling(path, temporary):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)


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
def filling(path: Path, temporary: Path) -> Iterator[None]:
    """Work on ``temporary``, which is to become ``path``; it is removed when that fails.

    Raises:
        ArtifactError: the disk is full or the place is not writable.
    """
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if error.errno == errno.ENOSPC:
            raise ArtifactError(f"no space left on the device while writing {path}; free some and run again") from error
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(value: Any) -> str:
    """Short hash of a JSON value, for keys and folder names."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def source_hash() -> str:
    """Hash of this package's own source, for what must not outlive a change of the code."""
    root = Path(__file__).parent
    return content_hash([[str(path.relative_to(root)), file_sha256(path)] for path in sorted(root.rglob("*.py"))])


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal.

    Raises:
        ArtifactError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error


def _write_whole(temporary: Path, data: bytes) -> None:
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
