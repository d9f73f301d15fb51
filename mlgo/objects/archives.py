"""Members of static archives, by their headers alone.

Format: the common one of Unix with long names of GNU (``//`` and ``/NUMBER``) and of BSD (``#1/LENGTH``), see ar(5). No
maintained library for Python reads both and tells where members are, so this is a small reader of its own.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mlgo.errors import CorpusError

MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"
_HEADER_BYTES = 60
_END = b"`\n"
_MOST_NAME_BYTES, _MOST_MEMBERS = 1 << 12, 1 << 18


@dataclass(frozen=True)
class Member:
    """A file in an archive."""

    name: str  # as it was stored; names may occur twice
    offset: int  # where its content begins in the archive, in bytes
    size: int  # of its content in bytes


def read_members(path: Path) -> Iterator[Member]:
    """Members of an archive in order, without tables of symbols and names; none is in memory."""
    try:
        with path.open("rb") as file:
            yield from _members(path, file)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error


def _members(path: Path, file: BinaryIO) -> Iterator[Member]:
    magic = file.read(len(MAGIC))
    if magic == THIN_MAGIC:
        raise CorpusError(f"{path} is a thin archive: it holds names of objects only; give the folder of these objects")
    if magic != MAGIC:
        raise CorpusError(f"{path} is no archive")
    end, at, names, num_headers = os.fstat(file.fileno()).st_size, len(MAGIC), b"", 0
    while at + _HEADER_BYTES <= end:
        if (num_headers := num_headers + 1) > _MOST_MEMBERS:
            raise CorpusError(f"{path} has more than {_MOST_MEMBERS:,} members; give the folder of its objects")
        file.seek(at)
        header = file.read(_HEADER_BYTES)
        size = _number(path, at, header[48:58])
        start, at = at + _HEADER_BYTES, at + _HEADER_BYTES + size + size % 2
        if header[58:60] != _END or start + size > end:
            raise CorpusError(f"{path} is damaged: the member at byte {start - _HEADER_BYTES:,} goes beyond its end")
        name = header[:16].rstrip(b" ")
        if name == b"//":
            names = file.read(size)
        elif name.startswith(b"#1/"):
            length = _number(path, start, name[3:])
            if length > min(size, _MOST_NAME_BYTES):
                raise CorpusError(f"{path} is damaged: a name of {length:,} bytes at byte {start:,}")
            stored = file.read(length).rstrip(b"\0")
            if not stored.startswith(b"__.SYMDEF"):
                yield Member(os.fsdecode(stored), start + length, size - length)
        elif name[:1] == b"/" and name[1:].isdigit():
            place = int(name[1:])
            long_end = names.find(b"/\n", place, place + _MOST_NAME_BYTES)
            if long_end < 0:
                raise CorpusError(f"{path} is damaged: there is no name at byte {place:,} of its table")
            yield Member(os.fsdecode(names[place:long_end]), start, size)
        elif name not in (b"/", b"/SYM64/") and not name.startswith(b"__.SYMDEF"):
            yield Member(os.fsdecode(name.removesuffix(b"/")), start, size)


def _number(path: Path, at: int, field: bytes) -> int:
    text = field.strip()
    if not text.isdigit():
        raise CorpusError(f"{path} is damaged: no number at byte {at:,}")
    return int(text)
