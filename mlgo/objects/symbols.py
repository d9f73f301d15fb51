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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mlgo.errors import ObjectError
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


NO_FUNCTION = b"[no function]"
"""What stands for a function where bytes belong to none."""

REFERENCES = ("--strip-debug", "--emit-relocs", "--apply-dynamic-relocs")
"""Options of lld for `linked_bytes_by_function`: keep symbols, and write down what refers to what. Sizes stay."""

_X86_64 = 62
# Types of relocations that leave an address, by its width in bytes, and those of them that count from their own end.
_ADDRESSES, _RELATIVE = {4: (2, 4, 9, 10, 11, 41, 42), 8: (1,)}, (2, 4, 9, 41, 42)
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


def linked_bytes_by_function(data: bytes, *, unwind: bool = True) -> dict[bytes, float]:
    """Bytes of each function of a linked file, by symbol; with those of `NO_FUNCTION` they add up to the file.

    A function has its code, the padding before it, its unwind entry and its table of exceptions. Constants, such as
    jump tables, and stubs for calls that leave the file belong in equal parts to the functions whose code refers to
    them. A constant without a symbol reaches to the next place that anything refers to. Folded functions are names of
    one place, see `bytes_by_function`.

    Args:
        data: a little-endian ELF file that was linked with `REFERENCES`, which are read for x86-64 alone.
        unwind: whether unwind tables count.

    Raises:
        ObjectError: not such a file, or cut short.
    """
    sections = elf.read_sections(data)
    kinds = section_kinds(data, sections)
    symbols = sorted(elf.function_symbols(data), key=lambda one: one.name)
    first_name = {0: NO_FUNCTION}
    for symbol in symbols:
        first_name.setdefault(symbol.value, symbol.name)
    functions = _extents(symbols)
    objects = _extents(elf.named_symbols(data, sections, lambda of: of["info"] & 15 == elf.STT_OBJECT))
    places, targets = _references(data, sections, ~kinds["unwind"] & (sections["type"] != elf.SHT_NOBITS))
    targets = np.where(of := _holder(objects, targets), objects[0, of], targets)

    # Each piece between two places where something begins or ends has one owner, several, or none.
    starts, sizes = sections["addr"].astype(np.int64), sections["size"].astype(np.int64)
    counted = np.stack([starts, starts + sizes])[:, kinds["text"] | kinds["read_only"]]
    cuts = np.unique(np.concatenate([counted.ravel(), functions.ravel(), objects.ravel(), targets]))
    lengths = np.diff(cuts) * (_holder(np.hstack([[[0], [0]], counted[:, np.argsort(counted[0])]]), cuts[:-1]) > 0)
    owners = _holder(functions, cuts[:-1])
    is_padding = (owners == 0) & (lengths < (cuts[1:] & -cuts[1:])) & np.isin(cuts[1:], functions[0])
    owners[is_padding] = np.searchsorted(functions[0], cuts[1:][is_padding])
    piece, user = np.searchsorted(cuts, targets), _holder(functions, places)
    is_known = (user > 0) & (piece < len(owners))
    pairs = np.stack([piece[is_known], user[is_known]])
    piece, user = np.unique(pairs[:, owners[pairs[0]] == 0], axis=1)
    found = np.bincount(owners, lengths, functions.shape[1])
    np.add.at(found, user, lengths[piece] / np.bincount(piece)[piece])
    if unwind:
        entries = np.array([*unwind_by_address(data, sections).items()], np.int64).reshape(-1, 2)
        address, size = entries[np.isin(entries[:, 0], functions[0])].T
        np.add.at(found, np.searchsorted(functions[0], address), size)
    found[0] = (
        sum(int(sizes[mask].sum()) for kind, mask in kinds.items() if unwind or kind != "unwind") - found[1:].sum()
    )
    by_function = dict.fromkeys((symbol.name for symbol in symbols), 0.0)
    for start, num_bytes in zip(functions[0].tolist(), found.tolist(), strict=True):
        by_function[first_name[start]] = by_function.get(first_name[start], 0.0) + num_bytes
    return by_function


def _extents(symbols: Iterable[elf.Symbol]) -> np.ndarray:
    """Start and end of what symbols cover, int64 [2, num], ascending and disjoint; the first covers nothing."""
    ends = {0: 0}
    for one in symbols:
        ends[one.value] = max(ends.get(one.value, 0), one.value + one.size)
    found = np.array(sorted(ends.items()), np.int64).T
    found[1, :-1] = np.minimum(found[1, :-1], found[0, 1:])
    return found


def _holder(extents: np.ndarray, addresses: np.ndarray) -> np.ndarray:
    """Number of the extent that has each address, int64 [num]; 0 for none."""
    numbers = np.searchsorted(extents[0], addresses, "right") - 1
    return np.where(addresses < extents[1, numbers], numbers, 0)


def _references(data: bytes, sections: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Where ``counted`` sections, bool [num_sections], refer to something, and to what: addresses, int64 [2, num]."""
    found, octets = [np.zeros((2, 0), np.int64)], np.frombuffer(data, np.uint8)
    for table in sections[sections["type"] == elf.SHT_RELA] if architecture(data) == (64, _X86_64) else ():
        number = int(table["info"])
        if table["flags"] & elf.SHF_ALLOC or number >= len(sections) or not counted[number]:
            continue  # of the dynamic linker
        start, size, offset = (int(sections[name][number]) for name in ("addr", "size", "offset"))
        relocations = elf.section_entries(data, table, _RELOCATION)
        for width, types in _ADDRESSES.items():
            of_width = relocations[np.isin(relocations["type"], types)]
            places = of_width["offset"].astype(np.int64)
            if np.any((places < start) | (places > start + size - width)):
                raise ObjectError("a relocation of the linked file is not in its section")
            values = octets[(places - start + offset)[:, None] + np.arange(width)].view(f"<i{width}")[:, 0]
            base = np.where(np.isin(of_width["type"], _RELATIVE), places + width, 0)
            found.append(np.stack([places, values + base]))
    return np.concatenate(found, axis=1)


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


def read_references(link_map: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Symbols that are in a linked file by the input that has them, and inputs that name each symbol.

    ``link_map`` is what the linker has written with ``-Map``, ``--cref`` and ``--no-demangle``.
    """
    sections, _, table = link_map.partition("\nCross Reference Table\n")
    kept: dict[str, set[str]] = {}
    for _, _, of, symbol in _mapped_symbols(sections):
        kept.setdefault(of, set()).add(symbol)
    users: dict[str, set[str]] = {}
    symbol = ""
    for line in table.splitlines():
        named = line[:1] not in ("", " ")
        symbol, _, rest = line.partition(" ") if named else (symbol, "", line)
        if rest.strip():
            users.setdefault(symbol, set()).add(rest.strip())
    return kept, users


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
