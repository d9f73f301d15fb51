"""Sizes of an ELF file by section flags, of 32 and 64 bits.

Two sizes (both in bytes), after the section header table of the ELF specification:

- Executable sections: those with SHF_EXECINSTR.
- Berkeley text: sections with SHF_ALLOC that are executable or not writable, the first column of ``llvm-size`` and
  GNU ``size`` (code, constants, unwind tables). This is what MLGO's inlining reward counts. A linked file also has
  tables for the dynamic linker among these; they are left out, as they hold names and addresses, not code or data of
  the program, and their size is a matter of which names are exported. An object has none.
"""

import re
from dataclasses import dataclass

import numpy as np

from mlgo.errors import ObjectError

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
"""Flags of a section."""

_SHT_NULL, _SHT_SYMTAB, _SHT_NOBITS, _SHT_DYNSYM = 0, 2, 8, 11
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_STB_GLOBAL, _STB_WEAK = 1, 2
_FOR_THE_DYNAMIC_LINKER = (3, 4, 5, 9, 11, 19, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF)
"""SHT_STRTAB, RELA, HASH, REL, DYNSYM, RELR, GNU_HASH, GNU_verdef, GNU_verneed, GNU_versym."""

ELF = b"\x7fELF"
"""How such a file begins."""

SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("addr", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("addralign", "<u8"),
        ("entsize", "<u8"),
    ]
)
"""``Elf64_Shdr`` without the prefix ``sh_``. Sections of all other files are brought to this form."""

SYMBOL64 = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""``Elf64_Sym``. Those of 32-bit files are brought to this form."""

_SECTION32 = np.dtype([(name, "<u4") for name in SECTION.names or ()])
_SYMBOL32 = np.dtype(
    [("name", "<u4"), ("value", "<u4"), ("size", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2")]
)


@dataclass(frozen=True)
class _Class:
    """Where a file's header has what is read of it, and how wide its tables are."""

    table_at: int
    table_bytes: int
    entry_at: int
    section: np.dtype
    symbol: np.dtype


_CLASSES = {1: _Class(32, 4, 46, _SECTION32, _SYMBOL32), 2: _Class(40, 8, 58, SECTION, SYMBOL64)}


def executable_size(sections: np.ndarray) -> int:
    """Executable sections in bytes.

    Args:
        sections: structured [num_sections], see `SECTION`.
    """
    executable = (sections["flags"] & SHF_EXECINSTR) != 0
    return int(sections["size"][executable].sum())


def text_size(sections: np.ndarray) -> int:
    """Berkeley text in bytes.

    Args:
        sections: structured [num_sections], see `SECTION`.
    """
    return int(sections["size"][is_text(sections)].sum())


def function_bytes(data: bytes) -> int:
    """Code of all functions of a little-endian ELF object in bytes, without the padding that aligns them."""
    sections = read_sections(data)
    tables = [read_symbols(data, section) for section in sections[sections["type"] == _SHT_SYMTAB]]
    symbols = np.concatenate([np.zeros(0, SYMBOL64), *tables])
    defined = np.isin(symbols["info"] & 15, (_STT_FUNC, _STT_GNU_IFUNC)) & (symbols["shndx"] != 0)
    functions = symbols[defined]
    functions = functions[np.lexsort((functions["size"], functions["value"], functions["shndx"]))]
    places = functions[["shndx", "value"]]
    is_last = np.append(places[1:] != places[:-1], True)[: len(places)]  # the largest of its place
    return int(functions["size"][is_last].sum())


def function_sizes(data: bytes) -> dict[str, int]:
    """Code of each function of a little-endian ELF object in bytes, without padding, by symbol.

    What GCC has moved away from a function because it is hardly executed (``f.cold``) counts as a part of it.

    Raises:
        ObjectError: other format, or cut short.
    """
    sizes: dict[str, int] = {}
    for name, symbol in function_symbols(data):
        owner = re.sub(r"\.cold(\.\d+)?$", "", name.decode(errors="replace"))
        sizes[owner] = sizes.get(owner, 0) + int(symbol["size"])
    return sizes


def function_symbols(data: bytes) -> list[tuple[bytes, np.void]]:
    """Name and symbol (`SYMBOL64`) of each function that a little-endian ELF object defines, in the order of the file.

    Raises:
        ObjectError: other format, or cut short.
    """
    sections = read_sections(data)
    found: list[tuple[bytes, np.void]] = []
    for table in sections[sections["type"] == _SHT_SYMTAB]:
        symbols = read_symbols(data, table)
        functions = symbols[np.isin(symbols["info"] & 15, (_STT_FUNC, _STT_GNU_IFUNC)) & (symbols["shndx"] != 0)]
        found += zip(symbol_names(data, sections, table, functions), functions, strict=True)
    return found


def function_code(data: bytes) -> dict[str, bytes]:
    """Code of each function of a little-endian ELF object by symbol, as it stands there before the link.

    Raises:
        ObjectError: other format, or cut short.
    """
    sections = read_sections(data)
    found: dict[str, bytes] = {}
    for name, symbol in function_symbols(data):
        if symbol["shndx"] < len(sections):
            start = int(sections["offset"][symbol["shndx"]]) + int(symbol["value"])
            found[name.decode(errors="replace")] = data[start : start + int(symbol["size"])]
    return found


def global_symbols(data: bytes, *, dynamic: bool = False) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Names that an object shares with others: those that it defines, and those that it needs.

    Args:
        data: the file.
        dynamic: ask what the dynamic linker sees of a linked file, which has this even without its other symbols.

    Raises:
        ObjectError: other format, or cut short.
    """
    sections = read_sections(data)
    defined, needed = set[bytes](), set[bytes]()
    for table in sections[sections["type"] == (_SHT_DYNSYM if dynamic else _SHT_SYMTAB)]:
        symbols = read_symbols(data, table)
        shared = symbols[np.isin(symbols["info"] >> 4, (_STB_GLOBAL, _STB_WEAK))]
        for name, symbol in zip(symbol_names(data, sections, table, shared), shared, strict=True):
            (defined if symbol["shndx"] else needed).add(name)
    return frozenset(defined), frozenset(needed)


def symbol_names(data: bytes, sections: np.ndarray, table: np.ndarray, symbols: np.ndarray) -> list[bytes]:
    """Names of some symbols; one that its table of strings cuts short ends there.

    Args:
        data: the file.
        sections: structured [num_sections], see `SECTION`.
        table: row of the symbol table.
        symbols: some of its symbols, structured [num_symbols], see `SYMBOL64`.

    Raises:
        ObjectError: the table names no table of strings.
    """
    if table["link"] >= len(sections):
        raise ObjectError("a symbol table of the object has no names")
    names = section_contents(data, sections[int(table["link"])]) + b"\0"
    return [names[start : names.find(b"\0", start)] for start in symbols["name"].tolist()]


def is_text(sections: np.ndarray) -> np.ndarray:
    """Which sections `text_size` counts, bool [num_sections]."""
    flags = sections["flags"]
    read_only = ((flags & SHF_EXECINSTR) != 0) | ((flags & SHF_WRITE) == 0)
    program = ~np.isin(sections["type"], _FOR_THE_DYNAMIC_LINKER)
    found: np.ndarray = ((flags & SHF_ALLOC) != 0) & read_only & program
    return found


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
    stored = sections[sections["type"] != _SHT_NOBITS]
    if np.any(stored["offset"] > len(data)) or np.any(stored["size"] > len(data) - stored["offset"]):
        raise ObjectError("a section of the object reaches beyond its end")
    return sections


def read_symbols(data: bytes, table: np.ndarray) -> np.ndarray:
    """Symbols of an ELF file, structured [num_symbols], see `SYMBOL64`.

    Args:
        data: the file.
        table: row of its symbol table, of what `read_sections` gives.
    """
    found = section_entries(data, table, _CLASSES[data[4]].symbol)
    symbols = np.zeros(len(found), SYMBOL64)
    for name in SYMBOL64.names or ():
        symbols[name] = found[name]
    return symbols


def section_entries(data: bytes, section: np.ndarray, kind: np.dtype) -> np.ndarray:
    """The whole entries of a section that is a table, structured [num_entries] as ``kind`` says.

    Args:
        data: the file.
        section: one row of what `read_sections` gives.
        kind: layout of an entry.
    """
    return np.frombuffer(data, kind, int(section["size"]) // kind.itemsize, int(section["offset"]))


def section_contents(data: bytes, section: np.ndarray) -> bytes:
    """What a file holds of a section.

    Args:
        data: the file.
        section: one row of what `read_sections` gives.
    """
    start = int(section["offset"])
    return data[start : start + int(section["size"])]


def section_name(data: bytes, sections: np.ndarray, number: int) -> bytes:
    """Name of a section of an ELF file; empty where the file names none.

    Args:
        data: the file.
        sections: structured [num_sections], see `SECTION`.
        number: which section.
    """
    return section_names(data, sections, sections[number : number + 1])[0]


def section_names(data: bytes, sections: np.ndarray, some: np.ndarray) -> list[bytes]:
    """Names of some sections of an ELF file; empty where the file names none.

    Args:
        data: the file.
        sections: all of them, structured [num_sections], see `SECTION`.
        some: those to name, structured [num_named].
    """
    at = _CLASSES[data[4]].entry_at + 4
    strings = int.from_bytes(data[at : at + 2], "little")
    if not 0 < strings < len(sections):
        return [b""] * len(some)
    names = section_contents(data, sections[strings]) + b"\0"
    return [names[start : names.find(b"\0", start)] for start in some["name"].tolist()]
