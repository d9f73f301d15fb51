"""Sections of an object, whatever its format: ELF, Mach-O or COFF.

All are brought to the form of ELF's section headers, with flags for what is loaded, executed and written. So sizes are
read in one way (`elf.text_size`, `elf.executable_size`).
"""

import struct

import numpy as np

from mlgo.errors import ObjectError
from mlgo.objects import elf
from mlgo.objects.elf import ELF, SECTION, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS, SHT_PROGBITS

# Mach-O, after <mach-o/loader.h>. What llvm-size calls text is the segment __TEXT: code, constants and unwind tables.
_MACHO64 = b"\xcf\xfa\xed\xfe"
_MACHO_HEADER = struct.Struct("<8I")
_SEGMENT_64 = 0x19
_SEGMENT_HEADER = struct.Struct("<2I16s4Q4I")
_MACHO_SECTION = struct.Struct("<16s16s2Q8I")
_INSTRUCTIONS = 0x80000000 | 0x400
_ZERO_FILL = (1, 12, 18)

# COFF, after Microsoft's PE format. Object files for Windows have machine and sections, and no header of an image.
_MACHINES = (0x8664, 0xAA64, 0x014C, 0x01C4)
_COFF_HEADER = struct.Struct("<2H3I2H")
_COFF_SECTION = struct.Struct("<8s6I2HI")
_BIG_HEADER = struct.Struct("<2H2HI16s6I")
_BIG_ID = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
_NOT_LOADED = 0x02000000 | 0x800 | 0x200  # discardable (debug information), removed by the linker, comments for it
_COFF_CODE, _COFF_EXECUTE, _COFF_WRITE, _COFF_ZEROS = 0x20, 0x20000000, 0x80000000, 0x80


def read_sections(data: bytes) -> np.ndarray:
    """Sections of an object.

    Returns:
        Structured [num_sections], see `elf.SECTION`; names of sections are not kept for Mach-O and COFF.

    Raises:
        ObjectError: another format, or cut short.
    """
    if data.startswith(ELF):
        return elf.read_sections(data)
    try:
        if data[:4] == _MACHO64:
            found = _macho(data)
        elif data[:4] == b"\0\0\xff\xff" and data[12:28] == _BIG_ID:
            found = _coff(data, _BIG_HEADER.unpack_from(data)[6], _BIG_HEADER.size)
        elif int.from_bytes(data[:2], "little") in _MACHINES:
            header = _COFF_HEADER.unpack_from(data)
            found = _coff(data, header[1], _COFF_HEADER.size + header[5])
        else:
            raise ObjectError("the compiler's output is neither ELF nor 64-bit Mach-O nor COFF; choose such a target")
    except struct.error:
        raise ObjectError(f"the object is cut short at {len(data)} bytes") from None
    sections = np.zeros(len(found), SECTION)
    for number, (kind, flags, offset, size) in enumerate(found):
        if kind != SHT_NOBITS and offset + size > len(data):
            raise ObjectError("a section of the object reaches beyond its end")
        sections[number] = (0, kind, flags, 0, offset, size, 0, 0, 0, 0)
    return sections


def _macho(data: bytes) -> list[tuple[int, int, int, int]]:
    found, at = [], _MACHO_HEADER.size
    for _ in range(_MACHO_HEADER.unpack_from(data)[4]):
        command, num_bytes = struct.unpack_from("<2I", data, at)
        if command == _SEGMENT_64:
            for number in range(_SEGMENT_HEADER.unpack_from(data, at)[9]):
                place = at + _SEGMENT_HEADER.size + number * _MACHO_SECTION.size
                _, segment, _, size, offset, _, _, _, flags, *_ = _MACHO_SECTION.unpack_from(data, place)
                is_text = segment.rstrip(b"\0") == b"__TEXT"
                loaded = SHF_ALLOC if is_text or segment.startswith(b"__DATA") else 0
                executed = SHF_EXECINSTR if flags & _INSTRUCTIONS else 0
                kind = SHT_NOBITS if flags & 0xFF in _ZERO_FILL else SHT_PROGBITS
                found.append((kind, loaded | executed | (0 if is_text else SHF_WRITE), offset, size))
        if num_bytes < 8:
            raise ObjectError("a load command of the object has no length")
        at += num_bytes
    return found


def _coff(data: bytes, num_sections: int, start: int) -> list[tuple[int, int, int, int]]:
    found = []
    for number in range(num_sections):
        _, _, _, size, offset, _, _, _, _, flags = _COFF_SECTION.unpack_from(data, start + number * _COFF_SECTION.size)
        loaded = 0 if flags & _NOT_LOADED else SHF_ALLOC
        executed = SHF_EXECINSTR if flags & (_COFF_CODE | _COFF_EXECUTE) else 0
        written = SHF_WRITE if flags & _COFF_WRITE else 0
        found.append((SHT_NOBITS if flags & _COFF_ZEROS else SHT_PROGBITS, loaded | executed | written, offset, size))
    return found
