"""A module as a file that also holds the options of its code generation.

Some options of a build are not part of bitcode, such as one section for each function. They stand in the gap that
LLVM's bitcode wrapper may have between its header and the bitcode (``llvm/include/llvm/Bitcode/BitcodeReader.h``). All
of LLVM's tools read such a file as they read plain bitcode. So a module and its options have one hash and travel
together.

The header is five little-endian numbers of 32 bits: magic, version, offset and size of the bitcode, processor.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

from mlgo.core.compiler_options import check_options
from mlgo.core.errors import ConfigError, ObjectError

_HEADER = struct.Struct("<5I")
_MAGIC = 0x0B17C0DE
_ANY_PROCESSOR = 0xFFFFFFFF
_ALIGNMENT = 16
_MOST_BYTES = 1 << 16


def with_options(bitcode: bytes, options: Sequence[str]) -> bytes:
    """Put options around bitcode; without any, it stays as it is.

    Raises:
        ConfigError: an option could run or load other code, or all of them are too long.
    """
    if not options:
        return bitcode
    check_options(options)
    words = "".join(f"{option}\0" for option in options).encode(errors="surrogateescape")
    if len(words) > _MOST_BYTES:
        raise ConfigError(f"options of {len(words):,} bytes; at most {_MOST_BYTES:,} fit a module")
    gap = words + bytes(-(_HEADER.size + len(words)) % _ALIGNMENT)
    header = _HEADER.pack(_MAGIC, 0, _HEADER.size + len(gap), len(bitcode), _ANY_PROCESSOR)
    return header + gap + bitcode + bytes(-len(bitcode) % 4)


def options_of(module: Path) -> tuple[str, ...]:
    """Options that a module's file holds; none for plain bitcode, textual IR, or no file.

    Raises:
        ObjectError: the file cannot be read, or its header makes no sense.
        ConfigError: an option could run or load other code: corpora come from others.
    """
    try:
        with module.open("rb") as file:
            start = file.read(_HEADER.size)
            if len(start) < _HEADER.size or int.from_bytes(start[:4], "little") != _MAGIC:
                return ()
            offset = _HEADER.unpack(start)[2]
            if not _HEADER.size <= offset <= _HEADER.size + _MOST_BYTES + _ALIGNMENT:
                raise ObjectError(f"{module.name}: a bitcode wrapper whose bitcode begins at {offset:,}")
            gap = file.read(offset - _HEADER.size)
    except FileNotFoundError:
        return ()  # the compiler says so
    except OSError as error:
        raise ObjectError(f"{module.name} cannot be read: {error.strerror}") from error
    options = tuple(gap.rstrip(b"\0").decode(errors="surrogateescape").split("\0")) if gap.strip(b"\0") else ()
    check_options(options)
    return options
