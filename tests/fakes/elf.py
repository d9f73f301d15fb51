"""ELF objects by hand, from the section header layout of the ELF-64 specification."""

import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

WRITE, ALLOC, EXEC = 1, 2, 4
NULL, PROGBITS, NOBITS = 0, 1, 8


Section = tuple[int, int, int] | tuple[int, int, bytes, int, int]


def elf_object(
    sections: list[Section],
    *,
    count_in_first: bool = False,
    bits: int = 64,
    names: tuple[int, list[int]] | None = None,
) -> bytes:
    """Make a relocatable object: ELF header, contents, then the section table with its empty first entry.

    Args:
        sections: type, flags and size in bytes of each section after the empty one; or type, flags, contents and the
            fields ``sh_link`` and ``sh_info``.
        count_in_first: store the number of sections as files with 65,280 or more of them do.
        bits: value of EI_CLASS, 32 or 64; the layout is that of 64 either way.
        names: number of the section with the sections' names, and where each name begins in it.
    """
    strings, name_of = names or (0, [0] * len(sections))
    contents, entries = b"", []
    for (kind, flags, what, *linked), name in zip(sections, name_of, strict=True):
        data = what if isinstance(what, bytes) else b"\xc3" * what
        link, info = linked or (0, 0)
        entries.append(
            struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, 64 + len(contents), len(data), link, info, 1, 0)
        )
        contents += data if kind != NOBITS else b""
    number = len(sections) + 1
    first = struct.pack("<IIQQQQIIQQ", 0, NULL, 0, 0, 0, number if count_in_first else 0, 0, 0, 0, 0)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1]),
        *(1, 62, 1, 0, 0, 64 + len(contents), 0, 64, 0, 0, 64, 0 if count_in_first else number, strings),
    )
    return header + contents + first + b"".join(entries)


def deduplicated_text(objects: Iterable[tuple[int, list[tuple[bytes, int]]]]) -> int:
    """Berkeley text of several objects in bytes, with the first copy of each COMDAT group, as a linker keeps it."""
    kept: set[bytes] = set()
    total = 0
    for text_bytes, groups in objects:
        total += text_bytes - sum(size for signature, size in groups if signature in kept)
        kept.update(signature for signature, _ in groups)
    return total


def readelf(path: Path, *options: str) -> str:
    """What readelf of binutils says of a file; without one here, the test is skipped."""
    if not shutil.which("readelf"):
        pytest.skip("needs readelf")
    command = ["readelf", "-W", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={"LC_ALL": "C"}).stdout
