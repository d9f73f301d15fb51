"""Inputs of a link, and the bitcode that objects among them carry.

What ``mlgo cc --whole`` makes is the object of the plain compiler, with the bitcode of its source in a section besides.
So every tool for objects takes it, and whoever links it without ``mlgo ld`` links that code. ``driver/embedded.h``
marks the object. Tools that write it anew (``objcopy``, ``strip``, ``ld -r``) drop the mark: its bitcode lacks what
they have changed, so it counts no longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mlgo.base.files import open_input, read_input
from mlgo.corpus.capture.bitcode import is_bitcode
from mlgo.errors import CorpusError, ObjectError
from mlgo.objects import archives
from mlgo.objects.elf import ELF, read_sections, section_contents

_MARK, _MARK_AT = b"mlgo", 9
"""In bytes of an ELF header that have no use."""
_SHT_LLVM_LTO = 0x6FFF4C0C
_START_BYTES, _RELOCATABLE = 18, b"\1\0"
"""The type of an object is at the end of these bytes of its header."""


@dataclass(frozen=True)
class LinkInput:
    """A file that is linked: what it is, without its content, which may be large."""

    path: Path
    is_archive: bool  # its objects are members of an archive
    has_bitcode: bool  # there is bitcode to merge
    carries: bool  # objects carry it
    is_changed: bool  # bitcode of an object does not count, as the object was changed

    @classmethod
    def read(cls, path: Path) -> "LinkInput | None":
        """Read a file; None for what is no file."""
        try:
            is_archive, objects = _content(path)
        except OSError:
            return None
        carried = [embedded_bitcode(one) for one in objects]
        pairs = list(zip(objects, carried, strict=True))
        has_bitcode = any(bitcode or is_bitcode(one) for one, bitcode in pairs)
        is_changed = any(not bitcode and _section(one) for one, bitcode in pairs)
        return cls(path, is_archive, has_bitcode, any(carried), is_changed)

    def words(self, folder: Path) -> list[str]:
        """Bitcode and other objects, written to ``folder``, as words of a linker."""
        place = folder / f"{len(list(folder.iterdir()))}-{self.path.name}"
        place.mkdir()
        _, objects = _content(self.path)
        files = [place / str(number) for number in range(len(objects))]
        for file, data in zip(files, objects, strict=True):
            file.write_bytes(embedded_bitcode(data) or data)
        return ["--start-lib", *map(str, files), "--end-lib"] if self.is_archive else [str(files[0])]


def _content(path: Path) -> tuple[bool, list[bytes]]:
    """Whether a file is an archive, and its objects and bitcode; none of a shared object."""
    with open_input(path) as file:
        start = file.read(_START_BYTES)
        is_archive = start.startswith((archives.MAGIC, archives.THIN_MAGIC))
        is_read = is_archive or is_bitcode(start) or (start.startswith(ELF) and start.endswith(_RELOCATABLE))
        data = start + file.read() if is_read else b""
    if not is_archive:
        return False, [data] if is_read else []
    try:
        return True, [_member(path, data, one) for one in archives.read_members(path, thin=True)]
    except (CorpusError, OSError):  # the linker says so
        return True, []


def with_embedded(words: Sequence[str], inputs: Sequence[LinkInput], folder: Path) -> list[str]:
    """Words of a linker, with bitcode in ``folder`` in place of what carries it; ``inputs`` are files already read."""
    known = {str(file.path): file for file in inputs}
    folders = [word.removeprefix("-L") or after for word, after in pairwise([*words, ""]) if word.startswith("-L")]
    suffixes = (".a",) if "-static" in words else (".so", ".a")
    found = []
    for word in words:
        names = [f"lib{word[2:]}{suffix}" for suffix in suffixes] if word.startswith("-l") else []
        libraries = (path for place in folders for name in names if (path := Path(place, name)).is_file())
        file = known.get(word)
        if file is None and (names or not word.startswith("-")):
            file = LinkInput.read(next(libraries, Path(word)))
        found += file.words(folder) if file and file.carries else [word]
    return found


def embedded_bitcode(data: bytes) -> bytes:
    """Bitcode that an object carries, unless somebody has changed the object; empty if there is none."""
    return _section(data) if data[_MARK_AT : _MARK_AT + len(_MARK)] == _MARK else b""


def _member(archive: Path, data: bytes, member: archives.Member) -> bytes:
    if member.offset < 0:
        return read_input(archive.parent / member.name)
    return data[member.offset : member.offset + member.size]


def _section(data: bytes) -> bytes:
    try:
        sections = read_sections(data)
    except ObjectError:
        return b""
    found = sections[sections["type"] == _SHT_LLVM_LTO]
    return section_contents(data, found[0]) if len(found) else b""
