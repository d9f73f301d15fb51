"""Which source an address of a linked file comes from, through inlined calls, as its debug information tells."""

import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

from mlgo.errors import ObjectError


class Frame(NamedTuple):
    """A line of a function, as LLVM's sample profiles name it."""

    function: str  # as the linker knows it
    line: int  # behind that of the function's declaration
    discriminator: int  # tells blocks of a line apart
    copies: int = 1  # that an unrolled or vectorized loop has of it, so visits that an instruction stands for

    @classmethod
    def of(cls, function: str, distance: int, stored: int) -> "Frame":
        """As debug information has them."""
        return cls(function, distance & 0xFFFF, *discriminator_and_copies(stored))  # LLVM keeps 16 bits


def find_frames(data: bytes, addresses: Iterable[int]) -> dict[int, tuple[Frame, ...]]:
    """Frames by address, the outermost function first; without addresses that no function with a line covers.

    Functions are known by the line of their declaration, which ``-g1`` leaves out unless
    ``-fdebug-info-for-profiling`` stands beside it.

    Raises:
        ObjectError: the file is no ELF, or its debug information is broken.
    """
    wanted = sorted(addresses)
    found: dict[int, tuple[Frame, ...]] = {}
    try:
        elf = ELFFile(io.BytesIO(data))
        dwarf = elf.get_dwarf_info() if elf.has_dwarf_info() else None
        for unit in dwarf.iter_CUs() if dwarf else ():
            functions = [(die, within) for die in unit.iter_DIEs() if (within := list(_covered(die, wanted)))]
            rows = _rows(dwarf, unit) if functions else []
            for die, within in functions:
                for calls, name, start, addresses in _scopes(die, within, ()):
                    for address in addresses:
                        line, discriminator = _line(rows, address)
                        if line and name and start:
                            found[address] = (*calls, Frame.of(name, line - start, discriminator))
                        else:  # of an inlined call that is not known, in a function that is
                            found.pop(address, None)
    except (ELFError, DWARFError, ValueError, LookupError, AttributeError) as error:
        raise ObjectError(f"debug information cannot be read: {error}") from error
    return found


def _covered(die: Any, wanted: Sequence[int]) -> Iterator[int]:
    if die.tag == "DW_TAG_subprogram":
        for low, high in _ranges(die):
            yield from _between(wanted, low, high)


def _ranges(die: Any) -> list[tuple[int, int]]:
    """First address and the one behind the last, of each part."""
    low, high, parts = (die.attributes.get(f"DW_AT_{name}") for name in ("low_pc", "high_pc", "ranges"))
    if parts is not None:
        found, base = [], _base(die.cu)
        for entry in die.dwarfinfo.range_lists().get_range_list_at_offset(parts.value, cu=die.cu):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            else:
                start = 0 if entry.is_absolute else base
                found.append((start + entry.begin_offset, start + entry.end_offset))
        return found
    if low is None or high is None or not low.value:  # 0: the linker has dropped it
        return []
    return [(low.value, high.value if describe_form_class(high.form) == "address" else low.value + high.value)]


def _base(unit: Any) -> int:
    low = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
    return 0 if low is None else int(low.value)


def _rows(dwarf: Any, unit: Any) -> list[tuple[int, int, int]]:
    """Address, line and discriminator, by address; the line is 0 from where a sequence ends."""
    program = dwarf.line_program_for_CU(unit)
    states = [entry.state for entry in program.get_entries() if entry.state] if program else []
    # Of several rows of an address the last counts.
    ordered = sorted(states, key=lambda one: (one.address, not one.end_sequence))
    return [(one.address, 0 if one.end_sequence else one.line, one.discriminator) for one in ordered]


def _line(rows: Sequence[tuple[int, int, int]], address: int) -> tuple[int, int]:
    number = bisect_right(rows, address, key=lambda row: row[0]) - 1
    return rows[number][1:] if number >= 0 else (0, 0)


def _scopes(
    die: Any, within: Sequence[int], calls: tuple[Frame, ...], name: str = "", start: int = 0
) -> Iterator[tuple[tuple[Frame, ...], str, int, Sequence[int]]]:
    """Of a function, then of the calls inlined in it: calls down to it, name, line of its declaration, addresses."""
    if die.tag != "DW_TAG_lexical_block":
        name, start = _named(die), _said(die, "decl_line") or 0
        yield calls, name, start, within
    for inner in die.iter_children() if name and start else ():
        if inner.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
            covered = [one for low, high in _ranges(inner) for one in _between(within, low, high)]
            place = Frame.of(name, _number(inner, "call_line") - start, _number(inner, "GNU_discriminator"))
            below = (*calls, place) if inner.tag == "DW_TAG_inlined_subroutine" else calls
            if covered:
                yield from _scopes(inner, covered, below, name, start)


def _between(addresses: Sequence[int], low: int, high: int) -> Sequence[int]:
    return addresses[bisect_left(addresses, low) : bisect_left(addresses, high)]


def _named(die: Any) -> str:
    name = _said(die, "linkage_name") or _said(die, "name") or b""
    return str(name.decode())


def _number(die: Any, name: str) -> int:
    attribute = die.attributes.get(f"DW_AT_{name}")
    return 0 if attribute is None else int(attribute.value)


def _said(die: Any, name: str) -> Any:
    """Value of an attribute of a function, or of what it is an instance of."""
    while die is not None:
        if f"DW_AT_{name}" in die.attributes:
            return die.attributes[f"DW_AT_{name}"].value
        origin = next((one for one in ("DW_AT_abstract_origin", "DW_AT_specification") if one in die.attributes), None)
        die = die.get_DIE_from_attribute(origin) if origin else None
    return None


def discriminator_and_copies(stored: int) -> tuple[int, int]:
    """The two parts of a stored discriminator that profiles need (llvm/IR/DebugInfoMetadata.h)."""
    base, rest = _component(stored)
    return base, _component(rest)[0] or 1


def _component(stored: int) -> tuple[int, int]:
    """The first part, and what is behind it: a bit that says none, or six or thirteen for a number."""
    if stored & 1:
        return 0, stored >> 1
    rest = stored >> 1
    return (((rest >> 1) & 0xFE0) | (rest & 0x1F), stored >> 14) if rest & 0x20 else (rest & 0x1F, stored >> 7)
