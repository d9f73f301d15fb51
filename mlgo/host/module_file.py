"""A module as a file that also holds how its code is generated.

Some options of a build are not part of bitcode, such as one section for each function. A module of ThinLTO belongs to
an index of what it imports. A build with feedback has a profile. A merged module has how its file is linked, and its
other variants. One that runs has what it prints, and how large it may be. All this stands in the gap that LLVM's
bitcode wrapper may have between its header and the bitcode (``llvm/include/llvm/Bitcode/BitcodeReader.h``). All of
LLVM's tools read such a file as plain bitcode. So a module and what belongs to it have one hash and travel together.

The header is five little-endian numbers of 32 bits: magic, version, offset and size of the bitcode, processor. In the
gap, each option ends with NUL. After one more NUL come attached files: the option that names the file, NUL, the file's
size, again 32 bits, and the file. Under the name ``program`` is what belongs to a program: the most text that it may
have, 64 bits, and what it prints. Under the name ``link`` are fields of `LinkedFile` as JSON, under the names of
`_VARIANTS` bitcode.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.base.files import open_input, parse_json, write_bytes
from mlgo.errors import ConfigError, ObjectError
from mlgo.host.command_line import PROFILES, check_options
from mlgo.host.linker import LinkedFile

BITCODE = b"BC\xc0\xde"
"""How bitcode without a wrapper begins."""
_HEADER = struct.Struct("<5I")
_MAGIC = 0x0B17C0DE
_ANY_PROCESSOR = 0xFFFFFFFF
_ALIGNMENT = 16
_SIZE = struct.Struct("<I")
_MOST_OPTIONS = 1 << 16
_MOST_TEXT = struct.Struct("<Q")
_INDEX = "-fthinlto-index="
_PROGRAM = "program"
_LINK = "link"
_VARIANTS = ("variant.0", "variant.1")
_LINK_FIELDS = {
    "kind": str,
    "options": list,
    "version_script": str,
    "export_dynamic": bool,
    "entry": str,
    "foreign": list,
}
MOST_BYTES = 1 << 26
"""Of what belongs to a module."""


@dataclass(frozen=True)
class RunnableProgram:
    """What the program that a module is prints when it runs, and the Berkeley text that its object may have."""

    stdout: bytes
    most_text_bytes: int


@dataclass(frozen=True)
class Generation:
    """How a module's code is generated, apart from the level and the target."""

    options: tuple[str, ...] = ()  # of the compiler
    index: bytes = b""  # combined index of ThinLTO for this module; empty for all other modules
    # Option that names a profile, see `PROFILES`, and the profile; None without one.
    profile: tuple[str, bytes] | None = None
    # What is known of the program that the module is; None for a module that is not run.
    program: RunnableProgram | None = None
    # How the file is linked that the module is, its only part, see `only_part`; None for all other modules.
    link: LinkedFile | None = None
    variants: tuple[bytes, ...] = ()  # bitcode of the same program, simplified otherwise

    @property
    def attached(self) -> dict[str, bytes]:
        """Files by the options that name them."""
        return ({_INDEX: self.index} if self.index else {}) | dict([self.profile] if self.profile else [])


def module_file(bitcode: bytes, generation: Generation) -> bytes:
    """Put all that belongs to a module around its bitcode; where nothing does, it stays as it is."""
    attached, program, link = generation.attached, generation.program, generation.link
    if program is not None:
        attached[_PROGRAM] = _MOST_TEXT.pack(program.most_text_bytes) + program.stdout
    if link is not None:
        fields = {name: getattr(link, name) for name in _LINK_FIELDS if name != "foreign"}
        attached[_LINK] = json.dumps({**fields, "foreign": link.libraries}).encode()
    attached |= zip(_VARIANTS, generation.variants, strict=False)
    if not generation.options and not attached:
        return bitcode
    check_options(generation.options)
    gap = "".join(f"{option}\0" for option in generation.options).encode(errors="surrogateescape")
    if len(gap) > _MOST_OPTIONS:
        raise ConfigError(f"options of {len(gap):,} bytes; at most {_MOST_OPTIONS:,} fit a module")
    gap += b"\0" if attached else b""
    for option, data in attached.items():
        gap += option.encode() + b"\0" + _SIZE.pack(len(data)) + data
    if len(gap) > MOST_BYTES:
        raise ConfigError(f"attached files of {len(gap):,} bytes; at most {MOST_BYTES:,} fit a module")
    gap += bytes(-(_HEADER.size + len(gap)) % _ALIGNMENT)
    header = _HEADER.pack(_MAGIC, 0, _HEADER.size + len(gap), len(bitcode), _ANY_PROCESSOR)
    return header + gap + bitcode + bytes(-len(bitcode) % 4)


def bitcode_of(module: bytes) -> bytes:
    """The bitcode in a module's file, without a wrapper; ObjectError where the header makes no sense."""
    if len(module) < _HEADER.size or int.from_bytes(module[:4], "little") != _MAGIC:
        return module
    _, _, offset, size, _ = _HEADER.unpack_from(module)
    if offset < _HEADER.size or offset + size > len(module):
        raise ObjectError(f"a bitcode wrapper of bytes {offset:,} to {offset + size:,} in a file of {len(module):,}")
    return module[offset : offset + size]


def generation_of(module: Path) -> Generation:
    """What a module's file says of its code generation; nothing for plain bitcode, textual IR, or no file.

    Raises:
        ObjectError: the file cannot be read, or its header makes no sense.
    """
    try:
        with open_input(module) as file:
            start = file.read(_HEADER.size)
            if len(start) < _HEADER.size or int.from_bytes(start[:4], "little") != _MAGIC:
                return Generation()
            offset = _HEADER.unpack(start)[2]
            if not _HEADER.size <= offset <= MOST_BYTES + _HEADER.size + _ALIGNMENT:
                raise ObjectError(f"{module.name}: a bitcode wrapper whose bitcode begins at {offset:,}")
            gap = file.read(offset - _HEADER.size)
    except FileNotFoundError:
        return Generation()  # the compiler says so
    except OSError as error:
        raise ObjectError(f"{module.name} cannot be read: {error.strerror}") from error
    end = (gap + b"\0").find(b"\0\0") + 1 if gap[:1] != b"\0" else 0
    if end > _MOST_OPTIONS:
        raise ObjectError(f"{module.name}: options of {end:,} bytes, where {_MOST_OPTIONS:,} are the most")
    options = gap[:end].decode(errors="surrogateescape").split("\0")[:-1]
    check_options(options)
    attached = dict(_attached(module, gap[end + 1 :]))
    profile = next(((option, data) for option, data in attached.items() if option in PROFILES), None)
    program = None
    if data := attached.get(_PROGRAM):
        if len(data) < _MOST_TEXT.size:
            raise ObjectError(f"{module.name}: what belongs to the program is cut short")
        program = RunnableProgram(data[_MOST_TEXT.size :], _MOST_TEXT.unpack_from(data)[0])
    link = _link(module, attached[_LINK]) if _LINK in attached else None
    variants = tuple(attached[name] for name in _VARIANTS if name in attached)
    return Generation(tuple(options), attached.get(_INDEX, b""), profile, program, link, variants)


def write_variants(module: Path, folder: Path) -> list[Path]:
    """Files of a module in all of its variants, itself first; the others are written to a folder."""
    own, files = generation_of(module), [module]
    for number, bitcode in enumerate(own.variants):
        files.append(folder / f"{number}.bc")
        write_bytes(files[-1], module_file(bitcode, replace(own, variants=())))
    return files


def _link(module: Path, data: bytes) -> LinkedFile:
    try:
        found = parse_json(data)
    except ValueError:
        found = None
    types = {name: type(value) for name, value in found.items()} if isinstance(found, dict) else {}
    words = [*found["options"], *found["foreign"]] if types == _LINK_FIELDS else [None]
    if not all(isinstance(word, str) for word in words) or found["kind"] not in ("program", "shared"):
        raise ObjectError(f"{module.name}: how it is linked is not well-formed")
    return LinkedFile.of_row({"project": "", "program": "", "parts": [], **found}).only_part()


def _attached(module: Path, data: bytes) -> Iterator[tuple[str, bytes]]:
    known = {_INDEX, _PROGRAM, _LINK, *_VARIANTS, *PROFILES}
    while (end := data.find(b"\0")) > 0:
        option, data = data[:end].decode(errors="replace"), data[end + 1 :]
        if option not in known:
            raise ConfigError(
                f"{module.name}: a file for {option}; an index, a profile, a program's output and a link belong to a "
                "module"
            )
        size = _SIZE.unpack_from(data)[0] if len(data) >= _SIZE.size else 0
        if not 0 < size <= len(data) - _SIZE.size:
            raise ObjectError(f"{module.name}: the file for {option} is cut short")
        known.remove(option)
        yield option, data[_SIZE.size : _SIZE.size + size]
        data = data[_SIZE.size + size :]


def generation_flags(module: Path, directory: Path) -> list[str]:
    """Options with which a module's code is generated, from its file; what is attached to it goes to ``directory``.

    LLVM takes modules with an index as merged already (``-thinlto-assume-merged``, ``llvm/lib/LTO/LTOBackend.cpp``).
    """
    generation = generation_of(module)
    flags = [*generation.options]
    for number, (option, data) in enumerate(generation.attached.items()):
        path = directory / f"attached.{number}"
        path.write_bytes(data)
        flags.append(f"{option}{path}")
    return [*flags, "-mllvm", "-thinlto-assume-merged"] if generation.index else flags
