"""Bitcode that somebody else has made, in files and in objects: where it begins and ends, and who made it.

Format: https://llvm.org/docs/BitCodeFormat.html. A file is a sequence of blocks after a magic number. Each block says
its length, so modules that a linker has put one after another are separated without reading them.

Objects hold bitcode after a compile with ``-Xclang -fembed-bitcode=all``, with the command that made it. LIEF reads the
objects: ELF and COFF have sections ``.llvmbc`` and ``.llvmcmd``, Mach-O ``__bitcode`` and ``__cmdline`` in the segment
``__LLVM``.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from mlgo.base.files import MAX_FILE_BYTES, open_input
from mlgo.base.packages import import_extra
from mlgo.errors import ObjectError
from mlgo.objects.elf import ELF

if TYPE_CHECKING:
    import lief

MAGIC = b"BC\xc0\xde"
WRAPPED_MAGIC = b"\xde\xc0\x17\x0b"
_START_BYTES = 8
_USED = re.compile(rb"[^\0]")
_WRAPPER = struct.Struct("<5I")
_ENTER_BLOCK, _UNABBREVIATED, _ABBREVIATION_BITS = 1, 3, 2
_MODULE_BLOCK, _TRIPLE_RECORD = 8, 2

_CHAR6 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_PRODUCER_WITHIN = 64
"""Bytes at the beginning of a module that hold the name of its maker."""


@dataclass(frozen=True)
class Piece:
    """Bytes within a file."""

    path: Path  # the file
    offset: int = 0  # where they begin
    size: int = -1  # how many; -1 for all up to its end

    def read(self) -> bytes:
        """The bytes."""
        with open_input(self.path) as file:
            file.seek(self.offset)
            return file.read(self.size)

    def start(self) -> bytes:
        """The first bytes, which show what it is."""
        with open_input(self.path, MAX_FILE_BYTES) as file:
            file.seek(self.offset)
            return file.read(_START_BYTES if self.size < 0 else min(_START_BYTES, self.size))


@dataclass(frozen=True)
class BitcodeUnit:
    """A module of a build that is bitcode already."""

    name: str  # of the module
    piece: Piece  # where it is
    options: tuple[str, ...] = ()  # of its code generation, such as `-ffunction-sections`
    index: Piece | None = None  # of ThinLTO, for a module that was taken after its import
    problem: str = ""  # why it cannot be a module of a project, if that is known already: kind, colon, reason


def is_bitcode(start: bytes) -> bool:
    """Whether a file that begins so is bitcode, plain or in a wrapper."""
    return start[:4] in (MAGIC, WRAPPED_MAGIC)


def find_modules(data: bytes) -> list[tuple[int, int]]:
    """Offset and size in bytes of modules, wrappers included, that stand one after another as linkers join sections."""
    found, at = [], 0
    while at < len(data):
        word = data[at : at + 4]
        if not word.strip(b"\0"):  # to align the next one
            used = _USED.search(data, at)
            at = used.start() // 4 * 4 if used else len(data)
            continue
        if word == WRAPPED_MAGIC and at + _WRAPPER.size <= len(data):
            _, _, offset, size, _ = _WRAPPER.unpack_from(data, at)
            end = at + offset + size
        elif word == MAGIC:
            end = at + 4  # blocks of identification, module, and tables of strings and symbols
            while end + 8 <= len(data):
                head, words = struct.unpack_from("<2I", data, end)
                if head & ((1 << _ABBREVIATION_BITS) - 1) != _ENTER_BLOCK:
                    break
                end += 8 + 4 * words
        else:
            raise ObjectError(f"no bitcode at byte {at:,} of {len(data):,}")
        if end > len(data) or end - at < _WRAPPER.size:
            raise ObjectError(f"bitcode is cut off at {len(data):,} bytes")
        found.append((at, end - at))
        at = end
    return found


def made_by(bitcode: bytes) -> tuple[int, ...] | None:
    """Version of the LLVM that made a plain module; None where it says something else.

    The identification block holds ``LLVM22.1.8`` in characters of six bits, after its length in six bits.
    """
    bits = int.from_bytes(bitcode[:_PRODUCER_WITHIN], "little")
    pattern = sum(_CHAR6.index(letter) << (6 * number) for number, letter in enumerate("LLVM"))
    mask = (1 << 24) - 1
    for place in range(6, 8 * _PRODUCER_WITHIN - 24):
        if (bits >> place) & mask == pattern:
            length = (bits >> (place - 6)) & 0x3F
            text = "".join(_CHAR6[(bits >> (place + 6 * number)) & 0x3F] for number in range(length))
            return tuple(int(part) for part in text[4:].split(".") if part.isdecimal()) or None
    return None


def triple_of(bitcode: bytes) -> str:
    """Target triple of a plain module; empty where it says none, or not before the first abbreviated record.

    LLVM writes it without abbreviation, and clang writes its own triple over it when it reads the module.
    """
    at = 4
    while at + 8 <= len(bitcode):
        head, words = struct.unpack_from("<2I", bitcode, at)
        if (head >> _ABBREVIATION_BITS) & 0xFF == _MODULE_BLOCK:
            return _Records(bitcode, 8 * (at + 8), (head >> 10) & 0xF).text_of(_TRIPLE_RECORD)
        at += 8 + 4 * words
    return ""


class _Records:
    """Records of a block that are not abbreviated, from its beginning."""

    def __init__(self, data: bytes, at: int, width: int) -> None:
        self._data, self._at, self._width = data, at, width

    def text_of(self, wanted: int) -> str:
        """Text of the first record with a code; empty if another kind of entry comes first, or the end."""
        while self._at < 8 * len(self._data):
            kind = self._fixed(self._width)
            if kind == _ENTER_BLOCK:  # skip it: identifier, width of abbreviations, and at 32 bits its length in words
                self._variable(8)
                self._variable(4)
                at = -(-self._at // 32) * 4
                self._at = 8 * (at + 4 + 4 * int.from_bytes(self._data[at : at + 4], "little"))
            elif kind == _UNABBREVIATED:
                code, length = self._variable(6), self._variable(6)
                values = [self._variable(6) for _ in range(min(length, 8 * len(self._data) - self._at))]
                if code == wanted:
                    return bytes(value & 0xFF for value in values).decode(errors="replace")
            else:
                break
        return ""

    def _fixed(self, width: int) -> int:
        at = self._at // 8
        value = int.from_bytes(self._data[at : at + 8], "little") >> (self._at % 8)
        self._at += width
        return value & ((1 << width) - 1)

    def _variable(self, width: int) -> int:
        more, value, shift = 1 << (width - 1), 0, 0
        while self._at < 8 * len(self._data):
            part = self._fixed(width)
            value |= (part & (more - 1)) << shift
            shift += width - 1
            if not part & more:
                break
        return value


def same_machine(triple: str, other: str) -> bool:
    """Whether two triples have the same instructions and the same kind of objects."""
    return _machine(triple) == _machine(other)


def _machine(triple: str) -> tuple[str, str]:
    architecture, _, rest = triple.lower().partition("-")
    architecture = _ARCHITECTURES.get(architecture, architecture)
    if re.fullmatch(r"i[3-7]86", architecture):
        architecture = "i386"
    kinds = {"Mach-O": ("apple", "macos", "darwin", "ios"), "COFF": ("windows", "mingw", "cygwin", "win32")}
    return architecture, next((kind for kind, signs in kinds.items() if any(sign in rest for sign in signs)), "ELF")


_BITCODE, _COMMAND = (".llvmbc", "__bitcode"), (".llvmcmd", "__cmdline")
_MACH_O = tuple(struct.pack(order, number) for number in (0xFEEDFACE, 0xFEEDFACF, 0xCAFEBABE) for order in ("<I", ">I"))
_COFF = tuple(struct.pack("<H", machine) for machine in (0x8664, 0x014C, 0xAA64, 0x01C4))


@dataclass(frozen=True)
class Embedded:
    """A module in an object."""

    offset: int  # where it begins, in bytes
    size: int  # in bytes
    command: tuple[str, ...]  # arguments of `-cc1` that made it; empty where they are not there


def is_object(start: bytes) -> bool:
    """Whether a file that begins so may be an object, or a linked file, of ELF, Mach-O or COFF."""
    return start.startswith((ELF, *_MACH_O, *_COFF))


def find_embedded(data: bytes) -> list[Embedded]:
    """Modules in an object, in order; several where a linker has joined objects (``ld -r``)."""
    found = [one for start, sections in _slices(data) for one in _of_slice(data, start, sections)]
    if not found:
        raise ObjectError("it holds no bitcode; compile with -Xclang -fembed-bitcode=all")
    return found


def split_command(data: bytes) -> tuple[str, ...]:
    """Arguments of a ``.llvmcmd`` section or a ``.cmd`` file, each ended by NUL."""
    words = data.decode("utf-8", "surrogateescape").split("\0")
    return tuple(words[:-1] if words[-1] == "" else words)


def _slices(data: bytes) -> Iterator[tuple[int, list["lief.Section"]]]:
    """Parts of a file with their sections and where they begin: one, but for universal files of Mach-O."""
    lief = import_extra("lief", "embedded", "bitcode that objects carry")  # takes 0.3 s

    lief.logging.disable()  # it writes of damaged files to stderr by itself
    if data.startswith(_MACH_O):
        fat = lief.MachO.parse(data)
        if fat is None:
            raise ObjectError("it is damaged")
        for one in fat:
            yield one.fat_offset, [section for section in one.sections if section.segment_name == "__LLVM"]
        return
    binary = lief.parse(data)
    if binary is None or not len(binary.sections):
        raise ObjectError("it is damaged, or has more sections than can be read")
    yield 0, list(binary.sections)


def _of_slice(data: bytes, start: int, sections: list["lief.Section"]) -> Iterator[Embedded]:
    commands = [word for one in sections if one.name in _COMMAND for word in split_command(_content(data, start, one))]
    modules = [
        (start + one.offset + offset, size)
        for one in sections
        if one.name in _BITCODE
        for offset, size in find_modules(_content(data, start, one))
    ]
    if not modules:
        return
    begins = [number for number, word in enumerate(commands) if word == "-cc1"]
    each = [tuple(commands[begin:end]) for begin, end in pairwise([*begins, len(commands)])]
    if "-disable-llvm-passes" in commands:
        raise ObjectError(
            "its bitcode is from after optimization (-fembed-bitcode); compile with -Xclang -fembed-bitcode=all"
        )
    if each and len(each) != len(modules):
        raise ObjectError(f"it holds {len(modules)} modules and {len(each)} commands; give the objects it was made of")
    for number, (offset, size) in enumerate(modules):
        yield Embedded(offset, size, each[number] if each else ())


def _content(data: bytes, start: int, section: "lief.Section") -> bytes:
    begin = start + section.offset
    if begin + section.size > len(data):
        raise ObjectError("it is cut off")
    return data[begin : begin + section.size]
