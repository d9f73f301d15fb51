"""What the bytes of an ELF file belong to: by function, and by symbol and kind of bytes.

An unwind entry belongs to the function that it is about, see mlgo/objects/unwind.py. What belongs to no function:
padding, stubs for calls that leave the file, constants, and what unwind entries have in common.

The kinds of bytes are those of `SHIPPED`, so all symbols together add up to the linked size. Each byte counts once: of
several symbols that cover it, the one that begins first has it, and of those that begin together the longest. What no
symbol covers is `REST`.
"""

import ctypes
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mlgo.objects import elf
from mlgo.objects.comdat import carriers_by_section
from mlgo.objects.unwind import unwind_by_address, unwind_by_function

KINDS = ("text", "read_only", "unwind")
SHIPPED = (*KINDS, "total", "compressed")
"""Measures of a linked file in bytes: executable sections; constants; unwind tables; all three; the stripped file
compressed by zstd."""

REST = {kind: f"[{kind}]" for kind in KINDS}
"""What stands for a symbol where there is none, by kind."""

_UNWIND = (b".eh_frame", b".gcc_except_table")
_LINE = re.compile(r"^ *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+ ( *)(.*)$")
_IN_COLUMN, _SYMBOL_COLUMN = 8, 16
_TYPE_AT, _RELOCATABLE = 16, 1
_MACHINE_AT, _ARM = 18, 40
_ADDED = re.compile(r"(?<=.)\.(?:(?:llvm|part|cold|warm|constprop|isra|lto_priv|__uniq)(?:\.\d+)*|\d+)$")


def section_kinds(data: bytes, sections: np.ndarray) -> dict[str, np.ndarray]:
    """Which of an ELF file's sections each of the `KINDS` counts, bool [num_sections] each."""
    shipped, code = elf.is_text(sections), elf.is_code(sections)
    unwind = np.array([name.startswith(_UNWIND) for name in elf.section_names(data, sections, sections)], bool)
    return {"text": shipped & code, "read_only": shipped & ~code & ~unwind, "unwind": shipped & ~code & unwind}


def bytes_by_function(data: bytes, num_copies: Mapping[bytes, int] | None = None) -> dict[bytes, float]:
    """Bytes of each function's code and unwind entry, by symbol.

    Several names of one place: the first one in alphabetical order has the bytes, the others have 0. A function that
    the optimizer has made of another one (``f.llvm.123``, ``f.part.0``, ``f.cold``) is one of its own.

    Args:
        data: a little-endian ELF object.
        num_copies: objects that carry a COMDAT group, by signature, of which each function counts by its share, as in
            `comdat.shared_text`; 1 for those it does not name. None counts all in full.

    Raises:
        ObjectError: see `unwind_entries` and `comdat_groups`.
    """
    carriers = dict(enumerate(carriers_by_section(data, num_copies or {}).tolist()))
    unwinding = unwind_by_function(data)
    by_function: dict[bytes, float] = {}
    first_name: dict[tuple[int, int], bytes] = {}
    for symbol in sorted(elf.function_symbols(data), key=lambda one: one.name):
        place = symbol.section, symbol.value
        size = 0.0
        if first_name.setdefault(place, symbol.name) == symbol.name:
            size = (symbol.size + unwinding[place]) / carriers.get(symbol.section, 1)  # absolute ones are in no section
        by_function[symbol.name] = by_function.get(symbol.name, 0.0) + size
    return by_function


@dataclass(frozen=True)
class FunctionExtent:
    """Bytes of a function in a linked file."""

    input: str  # file given to the linker, as it was given
    symbols: tuple[str, ...]  # its names
    text: int  # code in bytes
    unwind: int  # its entries in unwind tables in bytes


def function_extents(data: bytes, link_map: str) -> list[FunctionExtent]:
    """Functions of a linked file, by address.

    ``link_map`` is what the linker has written with ``-Map`` and ``--no-demangle``: symbols with the object, address
    and size of their sections, also those stripped from the file.

    Raises:
        ObjectError: not a little-endian ELF file, or cut short.
    """
    sections = elf.read_sections(data)
    code = sections[elf.is_code(sections)]
    unwind = unwind_by_address(data, sections)
    extents: dict[int, FunctionExtent] = {}
    for address, size, of, symbol in _mapped_symbols(link_map):
        if size and np.any((code["addr"] <= address) & (address < code["addr"] + code["size"])):
            known = extents.get(address, FunctionExtent(of, (), 0, unwind.get(address, 0)))
            extents[address] = replace(known, symbols=(*known.symbols, symbol), text=max(known.text, size))
    return [extent for _, extent in sorted(extents.items())]


def _mapped_symbols(link_map: str) -> Iterator[tuple[int, int, str, str]]:
    """Address, size, input file and name of each symbol in a map."""
    of = ""
    for match in filter(None, map(_LINE.match, link_map.splitlines())):
        address, size, indent, text = match.groups()
        if len(indent) == _IN_COLUMN:
            of = text.rpartition(":(")[0]
        elif len(indent) == _SYMBOL_COLUMN:
            yield int(address, 16), int(size, 16), of, text


def folded(name: str) -> str:
    """Name of a symbol without what optimizers add: the number may be another in each build.

    Endings that go, one after another: ``.llvm``, ``.part``, ``.cold``, ``.warm``, ``.constprop``, ``.isra``,
    ``.lto_priv`` and ``.__uniq``, each with the numbers behind it, and a number alone, as in ``counter.12``. Nothing
    else goes, and nothing is left empty.
    """
    while (shorter := _ADDED.sub("", name)) != name:
        name = shorter
    return name


def bytes_by_symbol(data: bytes, *, named: bool = True) -> Counter[tuple[str, str]]:
    """Bytes of an ELF file by symbol (`folded`) and kind (`KINDS`); unless ``named``, all is `REST` as if stripped.

    Raises:
        ObjectError: other format, cut short, or not well-formed.
    """
    sections = elf.read_sections(data)
    numbers = {kind: np.flatnonzero(mask) for kind, mask in section_kinds(data, sections).items()}
    totals = {kind: int(sections["size"][of_kind].sum()) for kind, of_kind in numbers.items()}
    found: Counter[tuple[str, str]] = Counter()
    if named:
        kind_of = {number: kind for kind in ("text", "read_only") for number in numbers[kind].tolist()}
        owners: dict[tuple[int, int], str] = {}
        covered: Counter[int] = Counter()
        for section, start, backwards, name in sorted(_placed(data, sections, kind_of)):
            owner = owners.setdefault((section, start), folded(name))
            found[owner, kind_of[section]] += max(0, -backwards - max(start, covered[section]))
            covered[section] = max(covered[section], -backwards)
        unwind = {place: size for place, size in _unwind(data, sections).items() if place in owners}
        if sum(unwind.values()) <= totals["unwind"]:  # else tools have made it what it cannot say
            for place, size in unwind.items():
                found[owners[place], "unwind"] += size
    for kind, total in totals.items():
        found[REST[kind], kind] = total - sum(size for (_, of), size in found.items() if of == kind)
    return +found


def has_symbols(data: bytes) -> bool:
    """Whether an ELF file has a table of all its symbols, which a stripped one has not; ObjectError for others."""
    return bool(np.any(elf.read_sections(data)["type"] == elf.SHT_SYMTAB))


def is_linked(data: bytes) -> bool:
    """Whether an ELF file is a program or a shared object, not an object for a linker."""
    return int.from_bytes(data[_TYPE_AT : _TYPE_AT + 2], "little") != _RELOCATABLE


def architecture(data: bytes) -> tuple[int, int]:
    """Bits of an address of an ELF file, and the number of its machine (``e_machine``)."""
    return 32 * data[4], int.from_bytes(data[_MACHINE_AT : _MACHINE_AT + 2], "little")


def _placed(data: bytes, sections: np.ndarray, counted: Mapping[int, str]) -> Iterator[tuple[int, int, int, str]]:
    """Section, start, negative end and name of each symbol with a size in one of the ``counted`` sections.

    Sorted, their order is that of the sections and of starts there, the longest of a place first.
    """

    def wanted(symbols: np.ndarray) -> np.ndarray:
        is_placed = np.isin(symbols["shndx"], [*counted]) & (symbols["size"] > 0)
        return np.isin(symbols["info"] & 15, (elf.STT_NOTYPE, elf.STT_OBJECT, *elf.FUNCTIONS)) & is_placed

    starts, sizes = sections["addr"].tolist(), sections["size"].tolist()
    is_arm = architecture(data)[1] == _ARM
    for symbol in elf.named_symbols(data, sections, wanted):
        # The lowest bit of its address names the instruction set.
        is_thumb = is_arm and symbol.info & 15 == elf.STT_FUNC
        start = (symbol.value & ~1 if is_thumb else symbol.value) - starts[symbol.section]
        if symbol.name and 0 <= start < sizes[symbol.section]:
            end = min(start + symbol.size, sizes[symbol.section])
            yield symbol.section, start, -end, symbol.name.decode(errors="replace")


def _unwind(data: bytes, sections: np.ndarray) -> Counter[tuple[int, int]]:
    """Bytes of unwind entries by section and place in it where their function begins."""
    if not is_linked(data):
        return unwind_by_function(data)
    found: Counter[tuple[int, int]] = Counter()
    code = np.flatnonzero(elf.is_code(sections))
    places = list(zip(code.tolist(), sections["addr"][code].tolist(), sections["size"][code].tolist(), strict=True))
    for address, size in unwind_by_address(data, sections).items():
        for number, start, length in places:
            if 0 <= address - start < length:
                found[number, address - start] += size
    return found


_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")


def demangled(name: str) -> str:
    """A symbol of C++ as a declaration, any other as it is; OSError where the machine has no C++ run-time library."""
    if not name.startswith("_Z"):
        return name
    pointer = _demangler()(name.encode(errors="replace"), None, None, ctypes.byref(ctypes.c_int()))
    if not pointer:
        return name
    try:
        return ctypes.string_at(pointer).decode(errors="replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(pointer))


@functools.cache
def _demangler() -> Callable[..., int | None]:
    for library in _LIBRARIES:
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return function
    raise OSError(f"none of {', '.join(_LIBRARIES)} can be loaded")
