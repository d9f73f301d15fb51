"""Bytes of each function: its code and its unwind entries, in objects and in linked files.

In an object, all functions add up to the text, but for constants, padding, and what all unwind entries share.

Of a linked file, the linker's map (``-Map``) lists each symbol with its section's object, address and size, also those
stripped from the file. An unwind entry (FDE) belongs to the function at its address: the table ``.eh_frame_hdr`` lists
both (Linux Standard Base, core, "Exception Frames"), eight bytes an entry. The entry may name a table of exceptions
(LSDA) in ``.gcc_except_table``, which belongs to the function, too, and reaches to the next one.

What belongs to no function: padding, stubs for calls that leave the file, constants, and what entries have in common.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mlgo.objects.comdat import carriers_by_section
from mlgo.objects.elf import SHF_EXECINSTR, function_symbols, is_text, read_sections, section_contents, section_names
from mlgo.objects.unwind import unwind_entries


def bytes_by_function(data: bytes, num_copies: Mapping[bytes, int] | None = None) -> dict[bytes, float]:
    """Bytes of each function's code and unwind entry, by symbol.

    With ``num_copies``, a function of a COMDAT group that several objects carry counts by its share, as in
    `comdat.shared_text`.

    Several names of one place: the first one in alphabetical order has the bytes, the others have 0. A function that
    the optimizer has made of another one (``f.llvm.123``, ``f.part.0``, ``f.cold``) is one of its own.

    Args:
        data: a little-endian ELF object.
        num_copies: objects that carry a group, by signature; 1 for those it does not name. None counts all in full.

    Raises:
        ObjectError: see `unwind_entries` and `comdat_groups`.
    """
    carriers = dict(enumerate(carriers_by_section(data, num_copies or {}).tolist()))
    unwinding: dict[tuple[int, int], int] = {}
    for section, offset, size in unwind_entries(data).tolist():
        unwinding[section, offset] = unwinding.get((section, offset), 0) + size
    found: dict[bytes, float] = {}
    places: dict[tuple[int, int], bytes] = {}
    for name, symbol in sorted(function_symbols(data), key=lambda one: one[0]):
        place = int(symbol["shndx"]), int(symbol["value"])
        first = places.setdefault(place, name)
        if name == first:
            size = int(symbol["size"]) + unwinding.get(place, 0)
            found[name] = found.get(name, 0.0) + size / carriers.get(place[0], 1)  # absolute ones are in no section
        else:
            found.setdefault(name, 0.0)
    return found


SHIPPED = ("text", "read_only", "unwind", "total", "compressed")
"""Measures of a linked file in bytes: executable sections; constants; unwind tables; all three; the stripped file
compressed by zstd."""

_UNWIND = (b".eh_frame", b".gcc_except_table")


_LINE = re.compile(r"^ *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+ ( *)(.*)$")
_IN_COLUMN, _SYMBOL_COLUMN = 8, 16
_HEADER = b"\x01\x1b\x03\x3b"
"""Version 1; encodings: address of the table 32 bits, relative to itself; count 32 bits; entries relative to here."""
_HEADER_BYTES, _ENTRY = 12, np.dtype([("function", "<i4"), ("entry", "<i4")])
_RELATIVE = 0x1B
"""Encoding of an address: 32 bits with sign, relative to where it stands."""
_POINTER_BYTES = {0x1B: 4, 0x9B: 4, 0x03: 4, 0x0B: 4, 0x00: 8, 0x04: 8, 0x0C: 8, 0x1C: 8, 0x9C: 8}


@dataclass(frozen=True)
class FunctionExtent:
    """Bytes of a function in a linked file.

    Attributes:
        input: file given to the linker, as it was given.
        symbols: its names.
        text: code in bytes.
        unwind: its entries in unwind tables in bytes.
    """

    input: str
    symbols: tuple[str, ...]
    text: int
    unwind: int


def function_extents(data: bytes, link_map: str) -> list[FunctionExtent]:
    """Functions of a linked file, by address.

    Args:
        data: the file, little-endian ELF.
        link_map: what the linker has written with ``-Map`` and ``--no-demangle``.

    Raises:
        ObjectError: no such file, or cut short.
    """
    sections = read_sections(data)
    code = sections[(sections["flags"] & SHF_EXECINSTR) != 0]
    unwind = unwind_by_address(data, sections)
    found: dict[int, tuple[str, int, list[str]]] = {}
    for address, size, of, symbol in _symbols(link_map):
        inside = (code["addr"] <= address) & (address < code["addr"] + code["size"])
        if size and inside.any():
            first, most, names = found.get(address, (of, 0, []))
            found[address] = first, max(most, size), [*names, symbol]
    return [
        FunctionExtent(of, tuple(names), size, unwind.get(address, 0))
        for address, (of, size, names) in sorted(found.items())
    ]


def _symbols(link_map: str) -> Iterator[tuple[int, int, str, str]]:
    """Address, size, input file and name of each symbol in a map."""
    of = ""
    for line in link_map.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        address, size, indent, text = match.groups()
        if len(indent) == _IN_COLUMN:
            of = text.rpartition(":(")[0]
        elif len(indent) == _SYMBOL_COLUMN:
            yield int(address, 16), int(size, 16), of, text


def unwind_by_address(data: bytes, sections: np.ndarray) -> dict[int, int]:
    """Bytes of unwind tables that belong to the function at an address; none where the tables are of another form.

    Args:
        data: a linked file.
        sections: structured [num_sections], what `read_sections` gives of it.
    """
    named = {name: number for number, name in enumerate(section_names(data, sections, sections))}
    if b".eh_frame_hdr" not in named or b".eh_frame" not in named:
        return {}
    header, table = sections[named[b".eh_frame_hdr"]], sections[named[b".eh_frame"]]
    contents = section_contents(data, header)
    if contents[: len(_HEADER)] != _HEADER or len(contents) < _HEADER_BYTES:
        return {}
    (count,) = struct.unpack_from("<I", contents, 8)
    entries = np.frombuffer(contents, _ENTRY, min(count, (len(contents) - _HEADER_BYTES) // _ENTRY.itemsize), 12)
    frames = _Frames(section_contents(data, table), int(table["addr"]))
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


def section_kinds(data: bytes, sections: np.ndarray) -> dict[str, np.ndarray]:
    """Which sections each of the measures ``text``, ``read_only`` and ``unwind`` counts, bool [num_sections] each.

    Args:
        data: an ELF file.
        sections: structured [num_sections], what `read_sections` gives of it.
    """
    shipped = is_text(sections)
    code = (sections["flags"] & SHF_EXECINSTR) != 0
    unwind = np.array([name.startswith(_UNWIND) for name in section_names(data, sections, sections)], bool)
    return {"text": shipped & code, "read_only": shipped & ~code & ~unwind, "unwind": shipped & ~code & unwind}
