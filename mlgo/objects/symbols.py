"""What the bytes of an ELF file belong to: its code, constants and unwind tables by symbol.

The kinds are those of `functions.SHIPPED`, so all symbols together add up to the linked size. Each
byte counts once: of several symbols that cover it, the one that begins first has it, and of those that begin together
the longest. An unwind entry belongs to the function that it is about (mlgo/objects/unwind.py for objects,
mlgo/objects/functions.py for linked files). What no symbol covers is `REST`: literals, padding, stubs, what unwind
entries have in common.
"""

import ctypes
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from mlgo.objects.elf import SHF_EXECINSTR, read_sections, read_symbols, symbol_names
from mlgo.objects.functions import section_kinds, unwind_by_address
from mlgo.objects.unwind import unwind_entries

KINDS = ("text", "read_only", "unwind")
"""Executable sections; constants; unwind tables; as in `functions.SHIPPED`."""

REST = {kind: f"[{kind}]" for kind in KINDS}
"""What stands for a symbol where there is none, by kind."""

_SHT_SYMTAB = 2
_NO_TYPE, _OBJECT, _FUNCTION, _INDIRECT = 0, 1, 2, 10
_TYPE_AT, _RELOCATABLE = 16, 1
_MACHINE_AT, _ARM = 18, 40
_ADDED = re.compile(r"(?<=.)\.(?:(?:llvm|part|cold|warm|constprop|isra|lto_priv|__uniq)(?:\.\d+)*|\d+)$")


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
    """Bytes of an ELF file by symbol (`folded`) and kind (`KINDS`).

    Args:
        data: the file, little-endian.
        named: tell symbols; otherwise all is `REST`, as in a stripped file.

    Raises:
        ObjectError: other format, cut short, or not well-formed.
    """
    sections = read_sections(data)
    kinds = {kind: np.flatnonzero(mask) for kind, mask in section_kinds(data, sections).items()}
    found: Counter[tuple[str, str]] = Counter()
    if named:
        kind_of = {number: kind for kind in ("text", "read_only") for number in kinds[kind].tolist()}
        owners: dict[tuple[int, int], str] = {}
        covered: Counter[int] = Counter()
        for section, start, end, name in sorted(_placed(data, sections, kind_of), key=_order):
            owner = owners.setdefault((section, start), folded(name))
            found[owner, kind_of[section]] += max(0, end - max(start, covered[section]))
            covered[section] = max(covered[section], end)
        told = Counter({place: size for place, size in _unwind(data, sections).items() if place in owners})
        if told.total() <= sections["size"][kinds["unwind"]].sum():  # else tools have made it what it cannot say
            for place, size in told.items():
                found[owners[place], "unwind"] += size
    for kind, numbers in kinds.items():
        rest = int(sections["size"][numbers].sum()) - sum(size for (_, of), size in found.items() if of == kind)
        found[REST[kind], kind] = rest
    return +found


def has_symbols(data: bytes) -> bool:
    """Whether an ELF file has a table of all its symbols, which a stripped one has not.

    Raises:
        ObjectError: other format, or cut short.
    """
    return bool(np.any(read_sections(data)["type"] == _SHT_SYMTAB))


def is_linked(data: bytes) -> bool:
    """Whether an ELF file is a program or a shared object, not an object for a linker."""
    return int.from_bytes(data[_TYPE_AT : _TYPE_AT + 2], "little") != _RELOCATABLE


def architecture(data: bytes) -> tuple[int, int]:
    """Bits of an address of an ELF file, and the number of its machine (``e_machine``)."""
    return 32 * data[4], int.from_bytes(data[_MACHINE_AT : _MACHINE_AT + 2], "little")


def _placed(data: bytes, sections: np.ndarray, counted: dict[int, str]) -> Iterator[tuple[int, int, int, str]]:
    """Section, start and end in it, and name of each symbol with a size in one of some sections."""
    for table in sections[sections["type"] == _SHT_SYMTAB]:
        symbols = read_symbols(data, table)
        kinds = symbols["info"] & 15
        of_interest = np.isin(kinds, (_NO_TYPE, _OBJECT, _FUNCTION, _INDIRECT)) & np.isin(symbols["shndx"], [*counted])
        symbols, kinds = symbols[of_interest & (symbols["size"] > 0)], kinds[of_interest & (symbols["size"] > 0)]
        value = symbols["value"].copy()
        if architecture(data)[1] == _ARM:  # the lowest bit of a function's address tells its instruction set
            value[kinds == _FUNCTION] &= ~np.uint64(1)
        start = value - sections["addr"][symbols["shndx"]]  # modulo 2^64; what lies before the section is far behind it
        room = sections["size"][symbols["shndx"]]
        inside = start < room
        end = np.where(inside, start + np.minimum(symbols["size"], room - start), 0)
        names = symbol_names(data, sections, table, symbols)
        for keep, section, first, last, name in zip(
            inside.tolist(), symbols["shndx"].tolist(), start.tolist(), end.tolist(), names, strict=True
        ):
            if keep and name:
                yield section, first, last, name.decode(errors="replace")


def _order(placed: tuple[int, int, int, str]) -> tuple[int, int, int, str]:
    """From the start of each section, the longest of a place first."""
    section, start, end, name = placed
    return section, start, -end, name


def _unwind(data: bytes, sections: np.ndarray) -> Counter[tuple[int, int]]:
    """Bytes of unwind entries by section and place in it where their function begins."""
    found: Counter[tuple[int, int]] = Counter()
    if not is_linked(data):
        for section, offset, size in unwind_entries(data).tolist():
            found[section, offset] += size
        return found
    code = np.flatnonzero(sections["flags"] & SHF_EXECINSTR)
    places = list(zip(code.tolist(), sections["addr"][code].tolist(), sections["size"][code].tolist(), strict=True))
    for address, size in unwind_by_address(data, sections).items():
        for number, start, length in places:
            if 0 <= address - start < length:
                found[number, address - start] += size
    return found


_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")


def demangled(name: str) -> str:
    """A symbol of C++ as a declaration; any other as it is.

    Raises:
        OSError: the machine has no C++ run-time library.
    """
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
