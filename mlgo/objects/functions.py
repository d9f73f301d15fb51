"""What each function of an object takes: its code and its unwind entry.

Over all functions they add up to the object's text, but for constants, padding, and what all unwind entries share.
"""

from collections.abc import Mapping

from mlgo.objects.comdat import carriers_by_section
from mlgo.objects.elf import function_symbols
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
