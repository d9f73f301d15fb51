"""Files that show damage: JSON with a hash of its content, Parquet with a checksum of its bytes.

For other programs they are JSON and Parquet as any. Files without hash or checksum, of others or of earlier versions,
are read, too.
"""

import json
import os
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from mlgo.base.files import content_sha256, json_text, read_json, readable, write_text

_HASH = "sha256"
_SHA256 = re.compile("[0-9a-f]{64}")
_SEAL = struct.Struct("<4sI")
"""Mark and CRC-32 of all other bytes. They stand in front of the footer, where no reader of Parquet looks."""
_MARK = b"MLGC"
_BLOCK = 1 << 20


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object as `record_text` has it."""
    write_text(path, record_text(record))


def record_text(record: Mapping[str, Any]) -> str:
    """A JSON object as text, with a hash of the rest as its last member."""
    return json_text({**record, _HASH: content_sha256(json.loads(json_text(record)))})


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object, see `checked_record`.

    Raises:
        ArtifactError: it is missing, no object, or not what was written.
    """
    record = read_json(path)
    with readable(path, "what was written", ValueError, RecursionError):
        return checked_record(record)


def checked_record(record: Any) -> dict[str, Any]:
    """What was given to `record_text`, by the object that was read of it, whose hash is checked if it has one.

    Raises:
        ValueError: it is no object, or not what was written.
    """
    if not isinstance(record, dict):
        raise ValueError("no object")
    content = {name: value for name, value in record.items() if name != _HASH}
    if _HASH in record:
        is_same = record[_HASH] == content_sha256(content)
    else:  # a hash under another name is damage, too
        is_same = not _SHA256.fullmatch(str(next(reversed(content.values()), "")))
    if not is_same:
        raise ValueError("its content has another hash")
    return content


def seal(path: Path) -> None:
    """Put a checksum into a Parquet file."""
    with path.open("r+b") as file:
        start = _footer(file)
        checksum = _checksum(file, start, start)
        file.seek(start)
        footer = file.read()
        file.seek(start)
        file.write(_SEAL.pack(_MARK, checksum) + footer)


def check_seal(file: BinaryIO) -> None:
    """Compare a Parquet file with its checksum, if it has one.

    Raises:
        ValueError: it is not what was written.
    """
    if (end := _footer(file)) >= _SEAL.size:
        file.seek(end - _SEAL.size)
        mark, checksum = _SEAL.unpack(file.read(_SEAL.size))
        if mark == _MARK and _checksum(file, end - _SEAL.size, end) != checksum:
            raise ValueError("its content has another checksum")
    file.seek(0)


def _footer(file: BinaryIO) -> int:
    """Where the footer of a Parquet file begins; below 0 where that is no place in the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    return size - 8 - int.from_bytes(file.read(4), "little")


def _checksum(file: BinaryIO, end: int, start: int) -> int:
    """CRC-32 of the bytes before ``end`` and of those from ``start`` on."""
    found, left = 0, end
    file.seek(0)
    while left and (data := file.read(min(left, _BLOCK))):
        found, left = zlib.crc32(data, found), left - len(data)
    file.seek(start)
    return zlib.crc32(file.read(), found)
