"""Whose unwind entries they are: the table ``.eh_frame`` of an ELF file, shared out among its functions.

The table is one section for all functions, a sequence of entries ``length (u32) | identifier (u32) | ...``. An entry
with identifier 0 (CIE) holds what several functions have in common. Every other one (FDE) belongs to one function,
whose address follows the identifier; in an object it is still a relocation, which leads to the function's symbol and
so to its section (Linux Standard Base, core, "Exception Frames"). A linker that drops a function drops its FDE too.

In a linked file, the table ``.eh_frame_hdr`` lists the address of each function and of its FDE, eight bytes an entry.
The FDE may name a table of exceptions (LSDA) in ``.gcc_except_table``, which belongs to the function, too, and reaches
to the next one.
"""

import struct
from collections import Counter
from itertools import pairwise

import numpy as np

from mlgo.errors import ObjectError
from mlgo.objects import elf

_LORESERVE = 0xFF00
_RELOCATIONS = {
    (2, elf.SHT_RELA): np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")]),
    (1, elf.SHT_RELA): np.dtype([("offset", "<u4"), ("info", "<u4"), ("addend", "<i4")]),
    (1, elf.SHT_REL): np.dtype([("offset", "<u4"), ("info", "<u4")]),
}
"""By the file's class (1 for 32 bits) and the section's type; x86-64, AArch64 and RISC-V have SHT_RELA."""
_LENGTH_BYTES, _ADDRESS_AT = 4, 8


def unwind_by_function(data: bytes) -> Counter[tuple[int, int]]:
    """Bytes of unwind entries of an ELF object by section and offset of their functions; raises as `unwind_entries`."""
    found = Counter[tuple[int, int]]()
    for section, offset, size in unwind_entries(data, elf.read_sections(data)).T.tolist():
        found[section, offset] += size
    return found


def unwind_entries(data: bytes, sections: np.ndarray) -> np.ndarray:
    """Section and offset of the function, and size in bytes of each entry whose function is known, int64 [3, num].

    Other entries stay with nobody, as do the common ones.

    Raises:
        ObjectError: the object's unwind table or relocations are not well-formed.
    """
    found = [np.zeros((3, 0), np.int64)]
    kinds = [of for bits, of in _RELOCATIONS if bits == data[4]]
    for number in np.flatnonzero(np.isin(sections["type"], kinds)).tolist():
        table = int(sections["info"][number])
        # Most relocations are those of code. A file with debug information alone has a table without contents.
        is_read = table < len(sections) and sections["type"][table] != elf.SHT_NOBITS
        is_read = is_read and not sections["flags"][table] & elf.SHF_EXECINSTR
        if is_read and elf.section_name(data, sections, table) == b".eh_frame":
            starts, sizes = _entries(data, sections[table])
            entries = np.stack([*_places(data, sections, number, starts + _ADDRESS_AT), sizes])
            found.append(entries[:, entries[0] > 0])
    return np.concatenate(found, axis=1)


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
    relocations = elf.section_entries(data, sections[number], kind)
    named = relocations["symbol"] if "symbol" in (kind.names or ()) else relocations["info"] >> 8
    link = int(sections["link"][number])
    if link >= len(sections) or sections["type"][link] != elf.SHT_SYMTAB:
        raise ObjectError("the relocations of the object's unwind table have no symbol table")
    symbols = elf.read_symbols(data, sections[link])
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
        octets = np.frombuffer(elf.section_contents(data, sections[int(sections["info"][number])]) + bytes(4), np.uint8)
        starts[hit] += octets[offsets[hit][:, None] + np.arange(4)].view("<i4")[:, 0]
    return owners, starts


_HEADER = b"\x01\x1b\x03\x3b"
"""Version 1; encodings: address of the table 32 bits, relative to itself; count 32 bits; entries relative to here."""
_HEADER_BYTES, _ENTRY = 12, np.dtype([("function", "<i4"), ("entry", "<i4")])
_RELATIVE = 0x1B
"""Encoding of an address: 32 bits with sign, relative to where it stands."""
_POINTER_BYTES = {0x1B: 4, 0x9B: 4, 0x03: 4, 0x0B: 4, 0x00: 8, 0x04: 8, 0x0C: 8, 0x1C: 8, 0x9C: 8}


def unwind_by_address(data: bytes, sections: np.ndarray) -> dict[int, int]:
    """Bytes of unwind tables by address of their function; none where the tables are of another form.

    ``sections``, structured [num_sections], are what `read_sections` gives of a linked file.
    """
    named = {name: number for number, name in enumerate(elf.section_names(data, sections, sections))}
    if b".eh_frame_hdr" not in named or b".eh_frame" not in named:
        return {}
    header, table = sections[named[b".eh_frame_hdr"]], sections[named[b".eh_frame"]]
    contents = elf.section_contents(data, header)
    if contents[: len(_HEADER)] != _HEADER or len(contents) < _HEADER_BYTES:
        return {}
    (count,) = struct.unpack_from("<I", contents, 8)
    entries = np.frombuffer(contents, _ENTRY, min(count, (len(contents) - _HEADER_BYTES) // _ENTRY.itemsize), 12)
    frames = _Frames(elf.section_contents(data, table), int(table["addr"]))
    base = int(header["addr"])
    found: dict[int, int] = {}
    exceptions: dict[int, int] = {}
    for function, entry in zip(entries["function"].tolist(), entries["entry"].tolist(), strict=True):
        size, lsda = frames.read(base + entry)
        found[base + function] = size + _ENTRY.itemsize
        if lsda:
            exceptions[lsda] = base + function
    if exceptions and b".gcc_except_table" in named:
        of = sections[named[b".gcc_except_table"]]
        first, last = int(of["addr"]), int(of["addr"] + of["size"])
        starts = [*sorted(start for start in exceptions if first <= start < last), last]  # some tools move tables
        for start, end in pairwise(starts):
            found[exceptions[start]] += end - start
    return found


class _Frames:
    """The table ``.eh_frame`` of a linked file."""

    def __init__(self, data: bytes, address: int) -> None:
        self._data, self._address = data, address
        self._common: dict[int, bool] = {}

    def read(self, address: int) -> tuple[int, int]:
        """Size of an entry in bytes, and address of its table of exceptions; 0 for what is not there."""
        at = address - self._address
        if not 0 <= at <= len(self._data) - 16:
            return 0, 0
        length, back = struct.unpack_from("<II", self._data, at)
        common = at + 4 - back
        if common not in self._common:
            self._common[common] = self._has_exceptions(common)
        lsda_at = at + 17  # length, identifier, address and length of the function, length of what follows
        if not self._common[common] or lsda_at + 4 > len(self._data):
            return length + 4, 0
        (offset,) = struct.unpack_from("<i", self._data, lsda_at)
        return length + 4, self._address + lsda_at + offset if offset else 0

    def _has_exceptions(self, at: int) -> bool:
        """Whether the entries of a common entry (CIE) have a table of exceptions, and all of the usual form."""
        try:
            end = self._data.index(b"\0", at + 9)
            letters = self._data[at + 9 : end]
            place = end + 1
            for _ in range(4):  # alignment of code and of data, return register, length of what follows
                while self._data[place] & 0x80:
                    place += 1
                place += 1
            encodings = {}
            for letter in letters[1:].decode("latin-1"):
                if letter in "LRP":
                    encodings[letter] = self._data[place]
                    place += 1 + (_POINTER_BYTES[self._data[place]] if letter == "P" else 0)
            return letters[:1] == b"z" and encodings.get("L") == encodings.get("R") == _RELATIVE
        except (ValueError, IndexError, KeyError):
            return False
