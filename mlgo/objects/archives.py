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
    offset: int  # where its content begins in the archive, in bytes; -1 in a thin archive, whose members are files
    size: int  # of its content in bytes


def read_members(path: Path, *, thin: bool = False) -> Iterator[Member]:
    """Members of an archive in order, without tables of symbols and names; none is in memory.

    With ``thin``, a thin archive is read, too. The names of its members are paths from its folder.
    """
    try:
        with path.open("rb") as file:
            yield from _members(path, file, thin)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error


def _members(path: Path, file: BinaryIO, thin: bool) -> Iterator[Member]:
    magic = file.read(len(MAGIC))
    is_thin = magic == THIN_MAGIC
    if is_thin and not thin:
        raise CorpusError(f"{path} is a thin archive: it holds names of objects only; give the folder of these objects")
    if magic not in (MAGIC, THIN_MAGIC):
        raise CorpusError(f"{path} is no archive")
    end, at, names, num_headers = os.fstat(file.fileno()).st_size, len(MAGIC), b"", 0
    while at + _HEADER_BYTES <= end:
        if (num_headers := num_headers + 1) > _MOST_MEMBERS:
            raise CorpusError(f"{path} has more than {_MOST_MEMBERS:,} members; give the folder of its objects")
        file.seek(at)
        header = file.read(_HEADER_BYTES)
        size = _number(path, at, header[48:58])
        name = header[:16].rstrip(b" ")
        num_stored = 0 if is_thin and name not in (b"/", b"//", b"/SYM64/") else size
        start, at = at + _HEADER_BYTES, at + _HEADER_BYTES + num_stored + num_stored % 2
        if header[58:60] != _END or start + num_stored > end:
            raise CorpusError(f"{path} is damaged: the member at byte {start - _HEADER_BYTES:,} goes beyond its end")
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
            yield Member(os.fsdecode(names[place:long_end]), -1 if is_thin else start, size)
        elif name not in (b"/", b"/SYM64/") and not name.startswith(b"__.SYMDEF"):
            yield Member(os.fsdecode(name.removesuffix(b"/")), -1 if is_thin else start, size)


def _number(path: Path, at: int, field: bytes) -> int:
    text = field.strip()
    if not text.isdigit():
        raise CorpusError(f"{path} is damaged: no number at byte {at:,}")
    return int(text)
