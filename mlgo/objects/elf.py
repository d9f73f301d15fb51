"""Sections and symbols of ELF files of 32 and 64 bits; sections of Mach-O and COFF objects in the same form.

Two sizes (both in bytes), after the section header table of the ELF specification:

- Executable sections: those with SHF_EXECINSTR.
- Berkeley text: sections with SHF_ALLOC that are executable or not writable, the first column of ``llvm-size`` and
  GNU ``size`` (code, constants, unwind tables). This is what MLGO's inlining reward counts. A linked file also has
  tables for the dynamic linker among these; they are left out, as they hold names and addresses, not code or data of
  the program, and their size is a matter of which names are exported. An object has none.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mlgo.errors import ObjectError

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
"""Flags of a section."""

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL, SHT_GROUP = 1, 2, 4, 8, 9, 17
"""Types of a section."""

STT_NOTYPE, STT_OBJECT, STT_FUNC = 0, 1, 2
FUNCTIONS = (STT_FUNC, 10)
"""Types of a symbol; STT_GNU_IFUNC are functions, too."""

_SHT_NULL, _SHT_DYNSYM = 0, 11
_SHARED = (1, 2)
"""STB_GLOBAL, STB_WEAK."""

_FOR_THE_DYNAMIC_LINKER = (3, 4, 5, 9, 11, 19, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF)
"""SHT_STRTAB, RELA, HASH, REL, DYNSYM, RELR, GNU_HASH, GNU_verdef, GNU_verneed, GNU_versym."""

ELF = b"\x7fELF"
"""How such a file begins."""

_WORDS = ("name", "type", "link", "info")
_SECTION_FIELDS = ("name", "type", "flags", "addr", "offset", "size", "link", "info", "addralign", "entsize")
SECTION = np.dtype([(name, "<u4" if name in _WORDS else "<u8") for name in _SECTION_FIELDS])
"""``Elf64_Shdr`` without the prefix ``sh_``. Sections of all other files are brought to this form."""

SYMBOL64 = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""``Elf64_Sym``. Those of 32-bit files are brought to this form."""

_SECTION32 = np.dtype([(name, "<u4") for name in _SECTION_FIELDS])
_SYMBOL32 = np.dtype(
    [("name", "<u4"), ("value", "<u4"), ("size", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2")]
)


class _Class(NamedTuple):
    """Where a file's header has what is read of it, and how wide its tables are."""

    table_at: int
    table_bytes: int
    entry_at: int
    section: np.dtype
    symbol: np.dtype


_CLASSES = {1: _Class(32, 4, 46, _SECTION32, _SYMBOL32), 2: _Class(40, 8, 58, SECTION, SYMBOL64)}


def executable_size(sections: np.ndarray) -> int:
    """Executable sections in bytes; ``sections`` is structured [num_sections], see `SECTION`."""
    return int(sections["size"][is_code(sections)].sum())


def text_size(sections: np.ndarray) -> int:
    """Berkeley text in bytes; ``sections`` is structured [num_sections], see `SECTION`."""
    return int(sections["size"][is_text(sections)].sum())


class Symbol(NamedTuple):
    """An entry of a symbol table, in the fields' order of `SYMBOL64`; its number of a section is 0 if undefined."""

    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int


def named_symbols(
    data: bytes, sections: np.ndarray, wanted: Callable[[np.ndarray], np.ndarray], table_type: int = SHT_SYMTAB
) -> Iterator[Symbol]:
    """Symbols in an ELF file's tables of one type, in its order.

    ``wanted`` takes all symbols of a table, structured [num_symbols] as `SYMBOL64`, and gives bool [num_symbols].
    ObjectError where a table names no table of strings.
    """
    for table in sections[sections["type"] == table_type]:
        symbols = read_symbols(data, table)
        symbols = symbols[wanted(symbols)]
        for name, row in zip(symbol_names(data, sections, table, symbols), symbols.tolist(), strict=True):
            yield Symbol(name, *row[1:])


def function_symbols(data: bytes) -> list[Symbol]:
    """Each function that a little-endian ELF object defines, in the order of the file; see `read_sections`."""

    def wanted(symbols: np.ndarray) -> np.ndarray:
        return np.asarray(np.isin(symbols["info"] & 15, FUNCTIONS) & (symbols["shndx"] != 0))

    return list(named_symbols(data, read_sections(data), wanted))


def function_code(data: bytes) -> dict[str, bytes]:
    """Code of each function of a little-endian ELF object by symbol, as it stands there before the link."""
    offsets = read_sections(data)["offset"].tolist()
    code: dict[str, bytes] = {}
    for symbol in function_symbols(data):
        if symbol.section < len(offsets):
            start = offsets[symbol.section] + symbol.value
            code[symbol.name.decode(errors="replace")] = data[start : start + symbol.size]
    return code


def global_symbols(data: bytes, *, dynamic: bool = False) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Names that an object shares with others: those that it defines, and those that it needs.

    With ``dynamic``, what the dynamic linker sees of a linked file, which has this even without its other symbols.

    Raises:
        ObjectError: other format, or cut short.
    """

    def is_shared(symbols: np.ndarray) -> np.ndarray:
        return np.isin(symbols["info"] >> 4, _SHARED)

    table_type = _SHT_DYNSYM if dynamic else SHT_SYMTAB
    shared = list(named_symbols(data, read_sections(data), is_shared, table_type))
    needed = frozenset(symbol.name for symbol in shared if not symbol.section)
    return frozenset(symbol.name for symbol in shared if symbol.section), needed


def symbol_names(data: bytes, sections: np.ndarray, table: np.ndarray, symbols: np.ndarray) -> list[bytes]:
    """Names of symbols [num_symbols], as far as the table of strings goes; ObjectError where the table names none."""
    if table["link"] >= len(sections):
        raise ObjectError("a symbol table of the object has no names")
    return _names(data, sections[int(table["link"])], symbols)


def _names(data: bytes, strings: np.ndarray, named: np.ndarray) -> list[bytes]:
    names = section_contents(data, strings) + b"\0"
    return [names[start : names.find(b"\0", start)] for start in named["name"].tolist()]


def is_text(sections: np.ndarray) -> np.ndarray:
    """Which sections `text_size` counts, bool [num_sections]."""
    flags = sections["flags"]
    loaded = ((flags & SHF_ALLOC) != 0) & ~np.isin(sections["type"], _FOR_THE_DYNAMIC_LINKER)
    return np.asarray(loaded & (is_code(sections) | ((flags & SHF_WRITE) == 0)))


def is_code(sections: np.ndarray) -> np.ndarray:
    """Which sections are executable, bool [num_sections]."""
    return np.asarray((sections["flags"] & SHF_EXECINSTR) != 0)


def read_sections(data: bytes) -> np.ndarray:
    """The section header table of a little-endian ELF file.

    Returns:
        Structured [num_sections], see `SECTION`. The contents of each section lie within ``data``; entries of type
        SHT_NULL are all 0.

    Raises:
        ObjectError: other format, or cut short.
    """
    if not data.startswith(ELF):
        raise ObjectError("this is not an ELF file; choose an ELF target")
    if data[4:6] not in (b"\x01\x01", b"\x02\x01"):
        raise ObjectError("the object is not little-endian ELF; choose such a target")
    kind = _CLASSES[data[4]]
    if len(data) < kind.entry_at + 6:
        raise ObjectError(f"the object is cut short at {len(data)} bytes")
    table = int.from_bytes(data[kind.table_at : kind.table_at + kind.table_bytes], "little")
    entry_bytes = int.from_bytes(data[kind.entry_at : kind.entry_at + 2], "little")
    if entry_bytes != kind.section.itemsize or table + entry_bytes > len(data):
        raise ObjectError("the object has no complete section table")
    first = np.frombuffer(data, kind.section, 1, table)
    # With 65,280 sections or more (-ffunction-sections) the count moves into the first entry.
    count = int.from_bytes(data[kind.entry_at + 2 : kind.entry_at + 4], "little") or int(first["size"][0])
    if table + count * entry_bytes > len(data):
        raise ObjectError("the object's section table is cut short")
    sections = np.frombuffer(data, kind.section, count, table).astype(SECTION)
    sections[sections["type"] == _SHT_NULL] = 0
    stored = sections[sections["type"] != SHT_NOBITS]
    if np.any(stored["offset"] > len(data)) or np.any(stored["size"] > len(data) - stored["offset"]):
        raise ObjectError("a section of the object reaches beyond its end")
    return sections


def read_symbols(data: bytes, table: np.ndarray) -> np.ndarray:
    """Symbols of an ELF file, structured [num_symbols], see `SYMBOL64`; ``table`` is a row of `read_sections`."""
    entries = section_entries(data, table, _CLASSES[data[4]].symbol)
    return entries[list(SYMBOL64.names or ())].astype(SYMBOL64)  # the fields have another order in files of 32 bits


def section_entries(data: bytes, section: np.ndarray, kind: np.dtype) -> np.ndarray:
    """The whole entries of a section that is a table, structured [num_entries] as ``kind`` says."""
    return np.frombuffer(data, kind, int(section["size"]) // kind.itemsize, int(section["offset"]))


def section_contents(data: bytes, section: np.ndarray) -> bytes:
    """What a file holds of a section, structured [] as a row of `read_sections`."""
    start = int(section["offset"])
    return data[start : start + int(section["size"])]


def section_name(data: bytes, sections: np.ndarray, number: int) -> bytes:
    """Name of one of the sections [num_sections] of an ELF file, by its number; empty where the file names none."""
    return section_names(data, sections, sections[number : number + 1])[0]


def section_names(data: bytes, sections: np.ndarray, some: np.ndarray) -> list[bytes]:
    """Names of ``some`` of the sections of an ELF file, structured [num_named]; empty where the file names none."""
    at = _CLASSES[data[4]].entry_at + 4
    strings = int.from_bytes(data[at : at + 2], "little")
    return _names(data, sections[strings], some) if 0 < strings < len(sections) else [b""] * len(some)


# Mach-O, after <mach-o/loader.h>. What llvm-size calls text is the segment __TEXT: code, constants and unwind tables.
_MACHO64 = b"\xcf\xfa\xed\xfe"
_MACHO_HEADER = struct.Struct("<8I")
_SEGMENT_64 = 0x19
_SEGMENT_HEADER = struct.Struct("<2I16s4Q4I")
_MACHO_SECTION = struct.Struct("<16s16s2Q8I")
_INSTRUCTIONS = 0x80000000 | 0x400
_ZERO_FILL = (1, 12, 18)

# COFF, after Microsoft's PE format. Object files for Windows have machine and sections, and no header of an image.
_MACHINES = (0x8664, 0xAA64, 0x014C, 0x01C4)
_COFF_HEADER = struct.Struct("<2H3I2H")
_COFF_SECTION = struct.Struct("<8s6I2HI")
_BIG_HEADER = struct.Struct("<2H2HI16s6I")
_BIG_ID = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
_NOT_LOADED = 0x02000000 | 0x800 | 0x200  # discardable (debug information), removed by the linker, comments for it
_COFF_CODE, _COFF_EXECUTE, _COFF_WRITE, _COFF_ZEROS = 0x20, 0x20000000, 0x80000000, 0x80


def object_sections(data: bytes) -> np.ndarray:
    """Sections of an ELF, Mach-O or COFF object, structured [num_sections] as `SECTION`; only those of ELF have names.

    Raises:
        ObjectError: another format, or cut short.
    """
    if data.startswith(ELF):
        return read_sections(data)
    try:
        if data[:4] == _MACHO64:
            found = _macho(data)
        elif data[:4] == b"\0\0\xff\xff" and data[12:28] == _BIG_ID:
            found = _coff(data, _BIG_HEADER.unpack_from(data)[6], _BIG_HEADER.size)
        elif int.from_bytes(data[:2], "little") in _MACHINES:
            header = _COFF_HEADER.unpack_from(data)
            found = _coff(data, header[1], _COFF_HEADER.size + header[5])
        else:
            raise ObjectError("the compiler's output is neither ELF nor 64-bit Mach-O nor COFF; choose such a target")
    except struct.error:
        raise ObjectError(f"the object is cut short at {len(data)} bytes") from None
    sections = np.zeros(len(found), SECTION)
    for number, (kind, flags, offset, size) in enumerate(found):
        if kind != SHT_NOBITS and offset + size > len(data):
            raise ObjectError("a section of the object reaches beyond its end")
        sections[number] = (0, kind, flags, 0, offset, size, 0, 0, 0, 0)
    return sections


def _macho(data: bytes) -> list[tuple[int, int, int, int]]:
    found, at = [], _MACHO_HEADER.size
    for _ in range(_MACHO_HEADER.unpack_from(data)[4]):
        command, num_bytes = struct.unpack_from("<2I", data, at)
        if command == _SEGMENT_64:
            for number in range(_SEGMENT_HEADER.unpack_from(data, at)[9]):
                place = at + _SEGMENT_HEADER.size + number * _MACHO_SECTION.size
                _, segment, _, size, offset, _, _, _, flags, *_ = _MACHO_SECTION.unpack_from(data, place)
                is_text = segment.rstrip(b"\0") == b"__TEXT"
                loaded = SHF_ALLOC if is_text or segment.startswith(b"__DATA") else 0
                executed = SHF_EXECINSTR if flags & _INSTRUCTIONS else 0
                kind = SHT_NOBITS if flags & 0xFF in _ZERO_FILL else SHT_PROGBITS
                found.append((kind, loaded | executed | (0 if is_text else SHF_WRITE), offset, size))
        if num_bytes < 8:
            raise ObjectError("a load command of the object has no length")
        at += num_bytes
    return found


def _coff(data: bytes, num_sections: int, start: int) -> list[tuple[int, int, int, int]]:
    found = []
    for number in range(num_sections):
        _, _, _, size, offset, _, _, _, _, flags = _COFF_SECTION.unpack_from(data, start + number * _COFF_SECTION.size)
        loaded = 0 if flags & _NOT_LOADED else SHF_ALLOC
        executed = SHF_EXECINSTR if flags & (_COFF_CODE | _COFF_EXECUTE) else 0
        written = SHF_WRITE if flags & _COFF_WRITE else 0
        found.append((SHT_NOBITS if flags & _COFF_ZEROS else SHT_PROGBITS, loaded | executed | written, offset, size))
    return found
