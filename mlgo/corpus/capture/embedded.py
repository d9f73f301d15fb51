"""Bitcode that compilers have put into objects (``-Xclang -fembed-bitcode=all``), with the command that made it.

LIEF reads the objects: ELF and COFF have sections ``.llvmbc`` and ``.llvmcmd``, Mach-O ``__bitcode`` and ``__cmdline``
in the segment ``__LLVM``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from mlgo.corpus.capture.bitcode import find_modules
from mlgo.corpus.capture.llvm_corpora import split_command
from mlgo.errors import ObjectError

if TYPE_CHECKING:
    import lief

_BITCODE, _COMMAND = (".llvmbc", "__bitcode"), (".llvmcmd", "__cmdline")
_MACH_O = (0xFEEDFACE, 0xFEEDFACF, 0xCAFEBABE)
_ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")
_COFF_MACHINES = (0x8664, 0x014C, 0xAA64, 0x01C4)


@dataclass(frozen=True)
class Embedded:
    """A module in an object.

    Attributes:
        offset: where it begins, in bytes.
        size: in bytes.
        command: arguments of ``-cc1`` that made it; empty where they are not there.
    """

    offset: int
    size: int
    command: tuple[str, ...]


def is_object(start: bytes) -> bool:
    """Whether a file that begins so may be an object, or a linked file, of ELF, Mach-O or COFF."""
    if start[:4] == b"\x7fELF":
        return True
    return _is_mach_o(start) or int.from_bytes(start[:2], "little") in _COFF_MACHINES


def find_embedded(data: bytes) -> list[Embedded]:
    """Modules in an object, in order; several where a linker has joined objects (``ld -r``).

    Raises:
        ObjectError: it cannot be read, holds no bitcode, or holds what cannot be told apart.
    """
    found = [one for start, sections in _slices(data) for one in _of_slice(data, start, sections)]
    if not found:
        raise ObjectError("it holds no bitcode; compile with -Xclang -fembed-bitcode=all")
    return found


def _is_mach_o(start: bytes) -> bool:
    return any(int.from_bytes(start[:4], order) in _MACH_O for order in _ORDERS)


def _slices(data: bytes) -> Iterator[tuple[int, list["lief.Section"]]]:
    """Parts of a file with their sections and where they begin: one, but for universal files of Mach-O."""
    import lief  # takes 0.3 s

    lief.logging.disable()  # it writes of damaged files to stderr by itself
    if _is_mach_o(data):
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
    each = _commands(commands)
    if "-disable-llvm-passes" in commands:
        raise ObjectError(
            "its bitcode is from after optimization (-fembed-bitcode); compile with -Xclang -fembed-bitcode=all"
        )
    if each and len(each) != len(modules):
        raise ObjectError(f"it holds {len(modules)} modules and {len(each)} commands; give the objects it was made of")
    for number, (offset, size) in enumerate(modules):
        yield Embedded(offset, size, each[number] if each else ())


def _commands(words: list[str]) -> list[tuple[str, ...]]:
    """Commands that stand one after another; each begins with ``-cc1``."""
    begins = [number for number, word in enumerate(words) if word == "-cc1"]
    return [tuple(words[begin:end]) for begin, end in pairwise([*begins, len(words)])]


def _content(data: bytes, start: int, section: "lief.Section") -> bytes:
    begin = start + section.offset
    if begin + section.size > len(data):
        raise ObjectError("it is cut off")
    return data[begin : begin + section.size]
