"""Unwind entries by section, against objects made by hand and against readelf."""

import re
import struct

import numpy as np
import pytest

from mlgo.errors import ObjectError
from mlgo.host.session import compile_plain
from mlgo.objects.elf import read_sections
from mlgo.objects.unwind import unwind_entries
from tests.fakes.elf import ALLOC, EXEC, PROGBITS, elf_object, readelf

SYMTAB, STRTAB, RELA = 2, 3, 4
NAMES = b"\0.eh_frame\0.text\0.rodata\0"
EH_FRAME, TEXT, RODATA = 1, 11, 17
UNDEFINED, ABSOLUTE = 0, 0xFFF1
SYMBOLS = b"".join(struct.pack("<IBBHQQ", 0, 0, 0, section, 0, 0) for section in (UNDEFINED, 1, 2, ABSOLUTE, UNDEFINED))
"""Symbols 1 and 2 lie in sections 1 and 2, 3 is absolute, 4 is undefined."""


def cie(size: int) -> bytes:
    return struct.pack("<II", size - 4, 0) + bytes(size - 8)


def fde(size: int) -> bytes:
    return struct.pack("<II", size - 4, 20) + bytes(size - 8)


def relocations(*places: tuple[int, int]) -> bytes:
    """``(offset, symbol)`` pairs as R_X86_64_PC32."""
    return b"".join(struct.pack("<QIIq", offset, 2, symbol, 0) for offset, symbol in places)


def unwinding(table: bytes, rela: bytes, *, name: int = EH_FRAME, link: int = 5, info: int = 3) -> bytes:
    """An object with code in sections 1 and 2, an unwind table in 3, its relocations in 4, symbols in 5, names in 6."""
    return elf_object(
        [
            (PROGBITS, ALLOC | EXEC, 100),
            (PROGBITS, ALLOC | EXEC, 20),
            (PROGBITS, ALLOC, table, 0, 0),
            (RELA, 0, rela, link, info),
            (SYMTAB, 0, SYMBOLS, 6, 0),
            (STRTAB, 0, NAMES, 0, 0),
        ],
        names=(6, [TEXT, TEXT, name, 0, 0, 0]),
    )


TABLE = cie(20) + fde(24) + fde(32) + fde(16)
"""Functions' addresses are to be filled in at 28, 52 and 84."""
RELOCATIONS = relocations((84, 2), (28, 2), (52, 1), (60, 1))


def unwind_bytes(data: bytes) -> np.ndarray:
    """Bytes of the entries of functions in each section, int64 [num_sections]."""
    sections = read_sections(data)
    owners, _, sizes = unwind_entries(data, sections)
    found = np.zeros(len(sections), np.int64)
    np.add.at(found, owners, sizes)  # refuses sections that are not there
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (unwinding(TABLE, RELOCATIONS), [32, 24 + 16]),
        (unwinding(cie(20) + fde(24) + bytes(4) + fde(32), RELOCATIONS), [0, 24]),  # the end mark ends the table
        (unwinding(TABLE, relocations((28, 3), (52, 4))), [0, 0]),  # of no known function
        (unwinding(TABLE, b""), [0, 0]),
        (unwinding(TABLE, RELOCATIONS, name=RODATA), [0, 0]),  # other tables
        (unwinding(TABLE, RELOCATIONS, info=99), [0, 0]),
    ],
)
def test_entries_by_hand(data, expected):
    assert unwind_bytes(data).tolist() == [0, *expected, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (unwinding(TABLE[:-1], RELOCATIONS), "reaches beyond its end"),
        (unwinding(b"\xff\xff\xff\xff" + TABLE, RELOCATIONS), "reaches beyond its end"),
        (unwinding(TABLE, RELOCATIONS, link=99), "no symbol table"),
        (unwinding(TABLE, RELOCATIONS, link=1), "no symbol table"),
        (unwinding(TABLE, relocations((28, 5))), "names a symbol that is not there"),
        (b"BC", "not an ELF"),
    ],
)
def test_damaged_tables(data, message):
    with pytest.raises(ObjectError, match=message):
        unwind_bytes(data)


@pytest.mark.parametrize("source", ["graph/paths.cpp", "codec/base64.c"])
def test_readelf_finds_the_same_entries(source, sample, toolchain, settings, tmp_path):
    path = tmp_path / "module.o"
    compile_plain(toolchain, sample(source), settings, object_path=path)
    found = unwind_bytes(path.read_bytes())
    expected = unwind_by_readelf(path)
    assert {str(number): int(found[number]) for number in np.flatnonzero(found)} == expected
    assert sum(expected.values()) > 0


def unwind_by_readelf(path) -> dict[str, int]:
    """Bytes of functions' entries by number of the section."""

    sections = readelf(path, "-S")
    number_of = {name: number for number, name in re.findall(r"^ +\[ *(\d+)\] (\S+)", sections, re.MULTILINE)}
    symbol_of = {
        int(offset, 16): name
        for offset, name in re.findall(
            r"^([0-9a-f]{16}) +[0-9a-f]+ R_\S+ +[0-9a-f]{16} (\S+) \+ ",
            re.search(r"'\.rela\.eh_frame'.*?(?=\nRelocation|\Z)", readelf(path, "-r"), re.DOTALL)[0],
            re.MULTILINE,
        )
    }
    found: dict[str, int] = {}
    for offset, length in re.findall(
        r"^([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+ FDE", readelf(path, "--debug-dump=frames"), re.MULTILINE
    ):
        number = number_of[symbol_of[int(offset, 16) + 8]]
        found[number] = found.get(number, 0) + int(length, 16) + 4
    return found
