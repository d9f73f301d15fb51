"""A checksum in Parquet files, which have none of their metadata and by default none of their rows.

For other programs they are Parquet as any. Files without it, of others or of earlier versions, are read, too.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

_FIELD = struct.Struct("<4sI")
"""Mark and CRC-32 of all other bytes, in front of the footer, where no reader of Parquet looks."""
_MARK = b"MLGC"
_BLOCK = 1 << 20


def add_checksum(path: Path) -> None:
    """Put the checksum into a file."""
    with path.open("r+b") as file:
        checksum, _, footer = _read(file, 0)
        file.seek(-len(footer), os.SEEK_END)
        file.write(_FIELD.pack(_MARK, checksum) + footer)


def verify_checksum(file: BinaryIO) -> None:
    """Compare a file with its checksum, if it has one; ValueError where it is not what was written."""
    checksum, found, _ = _read(file, _FIELD.size)
    if found.startswith(_MARK) and found != _FIELD.pack(_MARK, checksum):
        raise ValueError("its content has another checksum")
    file.seek(0)


def _read(file: BinaryIO, gap: int) -> tuple[int, bytes, bytes]:
    """CRC-32 of all bytes but for so many in front of the footer, these bytes, and the footer."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    left = max(size - 8 - int.from_bytes(file.read(4), "little") - gap, 0)
    file.seek(found := 0)
    while left and (data := file.read(min(left, _BLOCK))):
        found, left = zlib.crc32(data, found), left - len(data)
    skipped, footer = file.read(gap), file.read()
    return zlib.crc32(footer, found), skipped, footer
