"""A module as a file that also holds how its code is generated.

Some options of a build are not part of bitcode, such as one section for each function. A module of ThinLTO belongs to
an index of what it imports. Both stand in the gap that LLVM's bitcode wrapper may have between its header and the
bitcode (``llvm/include/llvm/Bitcode/BitcodeReader.h``). All of LLVM's tools read such a file as plain bitcode. So a
module, its options and its index have one hash and travel together.

The header is five little-endian numbers of 32 bits: magic, version, offset and size of the bitcode, processor. In the
gap, each option ends with NUL. An index follows after one more NUL and its size, again 32 bits.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.core.compiler_options import check_options
from mlgo.core.errors import ConfigError, ObjectError

_HEADER = struct.Struct("<5I")
_MAGIC = 0x0B17C0DE
_ANY_PROCESSOR = 0xFFFFFFFF
_ALIGNMENT = 16
_SIZE = struct.Struct("<I")
_MOST_OPTIONS = 1 << 16
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Generation:
    """How a module's code is generated, apart from the level and the target.

    Attributes:
        options: of the compiler.
        index: combined index of ThinLTO for this module; empty for all other modules.
    """

    options: tuple[str, ...] = ()
    index: bytes = b""


def with_options(bitcode: bytes, options: Sequence[str], index: bytes = b"") -> bytes:
    """Put options and an index around bitcode; without any, it stays as it is.

    Raises:
        ConfigError: an option could run or load other code, or all of them are too long.
    """
    if not options and not index:
        return bitcode
    check_options(options)
    gap = "".join(f"{option}\0" for option in options).encode(errors="surrogateescape")
    if len(gap) > _MOST_OPTIONS:
        raise ConfigError(f"options of {len(gap):,} bytes; at most {_MOST_OPTIONS:,} fit a module")
    if index:
        gap += b"\0" + _SIZE.pack(len(index)) + index
    gap += bytes(-(_HEADER.size + len(gap)) % _ALIGNMENT)
    header = _HEADER.pack(_MAGIC, 0, _HEADER.size + len(gap), len(bitcode), _ANY_PROCESSOR)
    return header + gap + bitcode + bytes(-len(bitcode) % 4)


def bitcode_of(module: bytes) -> bytes:
    """The bitcode in a module's file, without a wrapper.

    Raises:
        ObjectError: the header makes no sense.
    """
    if len(module) < _HEADER.size or int.from_bytes(module[:4], "little") != _MAGIC:
        return module
    _, _, offset, size, _ = _HEADER.unpack_from(module)
    if offset < _HEADER.size or offset + size > len(module):
        raise ObjectError(f"a bitcode wrapper of bytes {offset:,} to {offset + size:,} in a file of {len(module):,}")
    return module[offset : offset + size]


def options_of(module: Path) -> tuple[str, ...]:
    """Options that a module's file holds, see `generation_of`."""
    return generation_of(module).options


def generation_of(module: Path) -> Generation:
    """What a module's file says of its code generation; nothing for plain bitcode, textual IR, or no file.

    Raises:
        ObjectError: the file cannot be read, or its header makes no sense.
        ConfigError: an option could run or load other code: corpora come from others.
    """
    try:
        with module.open("rb") as file:
            start = file.read(_HEADER.size)
            if len(start) < _HEADER.size or int.from_bytes(start[:4], "little") != _MAGIC:
                return Generation()
            offset = _HEADER.unpack(start)[2]
            if not _HEADER.size <= offset <= _MOST_BYTES:
                raise ObjectError(f"{module.name}: a bitcode wrapper whose bitcode begins at {offset:,}")
            gap = file.read(offset - _HEADER.size)
    except FileNotFoundError:
        return Generation()  # the compiler says so
    except OSError as error:
        raise ObjectError(f"{module.name} cannot be read: {error.strerror}") from error
    options = []
    while (end := gap.find(b"\0")) > 0:
        options.append(gap[:end].decode(errors="surrogateescape"))
        gap = gap[end + 1 :]
    check_options(options)
    return Generation(tuple(options), _index(module, gap[1:]))


def _index(module: Path, data: bytes) -> bytes:
    if len(data) < _SIZE.size:
        return b""
    size = _SIZE.unpack_from(data)[0]
    if size > len(data) - _SIZE.size:
        raise ObjectError(f"{module.name}: an index of {size:,} bytes that is cut short")
    return data[_SIZE.size : _SIZE.size + size]
