"""Whose unwind entries they are: the table ``.eh_frame`` of an ELF object, shared out among its functions' sections.

The table is one section for all functions, a sequence of entries ``length (u32) | identifier (u32) | ...``. An entry
with identifier 0 (CIE) holds what several functions have in common. Every other one (FDE) belongs to one function,
whose address follows the identifier; in an object it is still a relocation, which leads to the function's symbol and
so to its section (Linux Standard Base, core, "Exception Frames"). A linker that drops a function drops its FDE too.
"""

import struct

import numpy as np

from mlgo.errors import ObjectError
from mlgo.objects.elf import read_sections, read_symbols, section_contents, section_entries, section_name

_SHT_RELA = 4
_SHT_REL = 9
_SHT_SYMTAB = 2
_SHT_NOBITS = 8
_SHF_EXECINSTR = 4
_LORESERVE = 0xFF00
_RELOCATIONS = {
    (2, _SHT_RELA): np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")]),
    (1, _SHT_RELA): np.dtype([("offset", "<u4"), ("info", "<u4"), ("addend", "<i4")]),
    (1, _SHT_REL): np.dtype([("offset", "<u4"), ("info", "<u4")]),
}
"""By the file's class (1 for 32 bits) and the section's type; x86-64, AArch64 and RISC-V have SHT_RELA."""
_LENGTH_BYTES, _ADDRESS_AT = 4, 8


def unwind_bytes(data: bytes) -> np.ndarray:
    """Bytes of unwind entries that belong to functions in each section, int64 [num_sections].

    Entries whose function is not known stay with nobody, as do the common ones.

    Args:
        data: a little-endian ELF object.

    Raises:
        ObjectError: not such an object, cut short, or its unwind table or relocations are not well-formed.
    """
    entries = unwind_entries(data)
    found = np.zeros(len(read_sections(data)), np.int64)
    np.add.at(found, entries["section"], entries["bytes"])
    return found


ENTRY = np.dtype([("section", np.int64), ("offset", np.int64), ("bytes", np.int64)])
"""An unwind entry of a function: where in the object the function begins, and how long the entry is."""


def unwind_entries(data: bytes) -> np.ndarray:
    """Unwind entries whose functions are known, structured [num_entries], see `ENTRY`.

    Args:
        data: a little-endian ELF object.

    Raises:
        ObjectError: see `unwind_bytes`.
    """
    sections = read_sections(data)
    found = [np.zeros(0, ENTRY)]
    kinds = [of for bits, of in _RELOCATIONS if bits == data[4]]
    for number in np.flatnonzero(np.isin(sections["type"], kinds)).tolist():
        table = int(sections["info"][number])
        if _is_unwind_table(data, sections, table):
            starts, sizes = _entries(data, sections[table])
            entries = np.zeros(len(starts), ENTRY)
            entries["section"], entries["offset"] = _places(data, sections, number, starts + _ADDRESS_AT)
            entries["bytes"] = sizes
            found.append(entries[entries["section"] > 0])
    return np.concatenate(found)


def _is_unwind_table(data: bytes, sections: np.ndarray, number: int) -> bool:
    if number >= len(sections) or sections["flags"][number] & _SHF_EXECINSTR:  # most relocations are those of code
        return False
    if sections["type"][number] == _SHT_NOBITS:  # of a file with debug information alone
        return False
    return section_name(data, sections, number) == b".eh_frame"


def _entries(data: bytes, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and sizes in bytes of the functions' entries (FDEs), int64 [num] each."""
    start, end = int(table["offset"]), int(table["offset"] + table["size"])
    found, offset = [], start
    while offset + _ADDRESS_AT <= end:
        length, identifier = struct.unpack_from("<II", data, offset)
        if not length:  # the end mark
            break
        size = length + _LENGTH_BYTES
        if offset + size > end:  # also an extended length (0xffffffff), which compilers do not write
            raise ObjectError("an entry of the object's unwind table reaches beyond its end")
        if identifier:
            found.append((offset - start, size))
        offset += size
    offsets, sizes = np.array(found, np.int64).reshape(-1, 2).T
    return offsets, sizes


def _places(data: bytes, sections: np.ndarray, number: int, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the relocation at each offset leads to: section, 0 where there is none, and offset in it."""
    kind = _RELOCATIONS[data[4], int(sections["type"][number])]
    relocations = section_entries(data, sections[number], kind)
    named = relocations["symbol"] if "symbol" in (kind.names or ()) else relocations["info"] >> 8
    link = int(sections["link"][number])
    if link >= len(sections) or sections["type"][link] != _SHT_SYMTAB:
        raise ObjectError("the relocations of the object's unwind table have no symbol table")
    symbols = read_symbols(data, sections[link])
    if np.any(named >= len(symbols)):
        raise ObjectError("a relocation of the object's unwind table names a symbol that is not there")
    target = symbols["shndx"][named].astype(np.int64)
    target[(target >= _LORESERVE) | (target >= len(sections))] = 0
    place = symbols["value"][named].astype(np.int64)
    if "addend" in (kind.names or ()):
        place += relocations["addend"]
    order = np.argsort(relocations["offset"], kind="stable")
    places = relocations["offset"][order].astype(np.int64)
    position = np.searchsorted(places, offsets)
    hit = position < len(places)
    hit[hit] = places[position[hit]] == offsets[hit]
    owners, starts = np.zeros((2, len(offsets)), np.int64)
    owners[hit] = target[order][position[hit]]
    starts[hit] = place[order][position[hit]]
    if "addend" not in (kind.names or ()):
        octets = np.frombuffer(section_contents(data, sections[int(sections["info"][number])]) + bytes(4), np.uint8)
        starts[hit] += octets[offsets[hit][:, None] + np.arange(4)].view("<i4")[:, 0]
    return owners, starts
