"""COMDAT groups of an ELF object: what a linker keeps once, however many objects bring a copy.

A group is a section of type SHT_GROUP. Its first word holds flags, the others are numbers of its member sections; its
header names a symbol, whose name is the signature. Of all groups with one signature and the flag GRP_COMDAT, a linker
keeps the first and drops the members of the rest (System V gABI, chapter 4, "Section Groups"). C++ compilers put each
inline function and template instance into such a group.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from mlgo.errors import ObjectError
from mlgo.objects.elf import ELF, SHT_GROUP, is_text, object_sections, read_symbols, section_contents, symbol_names
from mlgo.objects.unwind import unwind_entries

_GRP_COMDAT = 1
_WORD_BYTES = 4


def comdat_groups(data: bytes) -> list[tuple[bytes, int]]:
    """Signature and text in bytes of each COMDAT group of an object, in its order; Mach-O and COFF have no such groups.

    A group's text is the Berkeley text of its members, and the unwind entries of functions in them.

    Raises:
        ObjectError: ELF of another byte order, cut short, or a group or unwind table is not well-formed.
    """
    sections = object_sections(data)
    if not data.startswith(ELF):
        return []
    text = np.where(is_text(sections), sections["size"], 0).astype(np.int64)
    owners, _, unwind = unwind_entries(data, sections)
    np.add.at(text, owners, unwind)
    return [(signature, int(text[members].sum())) for signature, members in _comdats(data, sections)]


def carriers_by_section(data: bytes, num_copies: Mapping[bytes, int]) -> np.ndarray:
    """How many objects carry each section of an ELF object, int64 [num_sections]; 1 for those outside of groups."""
    sections = object_sections(data)
    carriers = np.ones(len(sections), np.int64)
    for signature, members in _comdats(data, sections):
        carriers[members] = num_copies.get(signature, 1)
    return carriers


def _comdats(data: bytes, sections: np.ndarray) -> list[tuple[bytes, np.ndarray]]:
    """Signature and numbers of the member sections of each group of which a linker keeps one."""
    groups = sections[sections["type"] == SHT_GROUP]
    if not len(groups):
        return []
    num_words = groups["size"].astype(np.int64) // _WORD_BYTES
    if np.any(num_words < 1):
        raise ObjectError("a section group of the object is empty")
    starts = np.cumsum(num_words) - num_words  # of each group, in the words of all groups together
    within = np.arange(num_words.sum()) - np.repeat(starts, num_words)
    offsets = np.repeat(groups["offset"].astype(np.int64), num_words) + _WORD_BYTES * within
    octets = np.frombuffer(data, np.uint8)[offsets[:, None] + np.arange(_WORD_BYTES)]
    words = octets.view("<u4")[:, 0]  # sections need not be aligned in the file
    is_comdat = (words[starts] & _GRP_COMDAT) != 0
    words[starts] = 0  # from here on the empty first section, in place of the flags
    if np.any(words >= len(sections)):
        raise ObjectError("a section group of the object names a section that is not there")
    members = [part[1:] for part, comdat in zip(np.split(words, starts[1:]), is_comdat, strict=True) if comdat]
    return list(zip(_signatures(data, sections, groups[is_comdat]), members, strict=True))


def shared_text(text_bytes: int, groups: Iterable[tuple[bytes, int]], num_copies: Mapping[bytes, int]) -> int:
    """Berkeley text of one object in bytes, where a COMDAT group that several objects carry counts by its share.

    ``groups`` are what `comdat_groups` gives; ``num_copies`` says how many objects carry one, 1 for those not named.
    A linker keeps the first copy of a group; here all who carry it bear it in equal parts. Over all objects of a
    project the sum is the same, up to rounding, where copies have equal sizes.
    """
    others = ((size, num_copies.get(signature, 1)) for signature, size in groups)
    return text_bytes - sum(size * (copies - 1) // copies for size, copies in others)


def _signatures(data: bytes, sections: np.ndarray, groups: np.ndarray) -> list[bytes]:
    """Names of the groups' symbols; all are in the object's one symbol table."""
    if not len(groups):
        return []
    link = int(groups["link"][0])
    if np.any(groups["link"] != link) or link >= len(sections) or sections["link"][link] >= len(sections):
        raise ObjectError("a section group of the object has no symbol table")
    table, strings = sections[link], sections[int(sections["link"][link])]
    symbols = read_symbols(data, table)
    if np.any(groups["info"] >= len(symbols)):
        raise ObjectError("a section group of the object names a symbol that is not there")
    found = symbol_names(data, sections, table, symbols[groups["info"]])
    if not all(found) or section_contents(data, strings)[-1:] != b"\0":
        raise ObjectError("a section group of the object has no signature")
    return found
