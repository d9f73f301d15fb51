"""What each function of an object takes: its code and its unwind entry.

Over all functions they add up to the object's text, but for constants, padding, and what all unwind entries share.
"""

from mlgo.core.measures.elf import function_symbols
from mlgo.core.measures.unwind import unwind_entries


def bytes_by_function(data: bytes) -> dict[bytes, int]:
    """Bytes of each function's code and unwind entry, by symbol.

    Several names of one place: the first one in alphabetical order has the bytes, the others have 0. A function that
    the optimizer has made of another one (``f.llvm.123``, ``f.part.0``, ``f.cold``) is one of its own.

    Args:
        data: a little-endian ELF object.

    Raises:
        ObjectError: see `unwind_entries`.
    """
    unwinding: dict[tuple[int, int], int] = {}
    for section, offset, size in unwind_entries(data).tolist():
        unwinding[section, offset] = unwinding.get((section, offset), 0) + size
    found: dict[bytes, int] = {}
    places: dict[tuple[int, int], bytes] = {}
    for name, symbol in sorted(function_symbols(data), key=lambda one: one[0]):
        place = int(symbol["shndx"]), int(symbol["value"])
        first = places.setdefault(place, name)
        if name == first:
            found[name] = found.get(name, 0) + int(symbol["size"]) + unwinding.get(place, 0)
        else:
            found.setdefault(name, 0)
    return found
