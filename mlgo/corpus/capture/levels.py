"""Language and level of a module that somebody else has compiled, read from textual IR; and another level for it.

Clang writes the level into attributes of functions: ``minsize optsize`` for ``-Oz``, ``optsize`` for ``-Os``, neither
for ``-O1`` to ``-O3``, and ``optnone`` for ``-O0``. The rest of the level is that of the compile.
"""

import re
from collections import Counter
from pathlib import Path, PurePosixPath

from mlgo.base.files import write_bytes
from mlgo.corpus.build import ir_of
from mlgo.corpus.capture.commands import SOURCE_LANGUAGES
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import bitcode_of, generation_of, with_options

_SOURCE = re.compile(rb'^source_filename = "([^"]*)"', re.MULTILINE)
_DEFINITION = re.compile(rb"^define [^\n]* #(\d+)(?= |\n)[^\n]*\{$", re.MULTILINE)
_GROUP = re.compile(rb"^attributes #(\d+) = \{ ([^\n]*) \}$", re.MULTILINE)
_MANGLED = re.compile(rb"@_Z\w")

_LEVELS = {
    "-Oz": frozenset({b"minsize", b"optsize"}),
    "-Os": frozenset({b"optsize"}),
    "-O0": frozenset({b"optnone"}),
}
_SPEED = "-O1 to -O3"


def language_of(ir: bytes) -> str:
    """Language of a module by the suffix of its source, else ``c++`` where names are mangled so."""
    found = _SOURCE.search(ir)
    suffix = PurePosixPath(found[1].decode(errors="replace")).suffix if found else ""
    return SOURCE_LANGUAGES.get(suffix) or ("c++" if _MANGLED.search(ir) else "c")


def level_of(ir: bytes) -> str:
    """Level that most functions of a module were compiled with; empty where none is defined."""
    groups = dict(_GROUP.findall(ir))
    found = Counter(_level(groups.get(number, b"")) for number in _DEFINITION.findall(ir))
    return found.most_common(1)[0][0] if found else ""


def is_of_level(level: str, wanted: str) -> bool:
    """Whether functions of a level, see `level_of`, are as a compile at ``wanted`` makes them."""
    return level in ("", wanted) or (level == _SPEED and wanted not in _LEVELS)


def with_level(ir: bytes, wanted: str) -> bytes:
    """The module with all functions as a compile at ``wanted`` marks them; those that refuse optimization stay."""
    defined = set(_DEFINITION.findall(ir))
    marks = _LEVELS.get(wanted, frozenset())

    def edit(match: re.Match[bytes]) -> bytes:
        words = match[2].split(b" ")
        if match[1] not in defined or b"optnone" in words:
            return match[0]
        rest = [word for word in words if word not in _LEVELS["-Oz"]]
        return b"attributes #%s = { %s }" % (match[1], b" ".join([*sorted(marks), *rest]))

    return _GROUP.sub(edit, ir)


def _level(attributes: bytes) -> str:
    words = set(attributes.split(b" "))
    return next((level for level, marks in _LEVELS.items() if marks <= words), _SPEED)


def mark_anew(front_end: FrontEnd, ir: bytes, level: str, bitcode: Path) -> None:
    """Write bitcode of textual IR, its functions marked as a compile at a level marks them."""
    text = bitcode.with_suffix(".level.ll")
    try:
        text.write_bytes(with_level(ir, level))
        front_end.assemble_ir(text, bitcode)
    finally:
        text.unlink(missing_ok=True)


def module_at_level(front_end: FrontEnd, module: Path, level: str, output: Path) -> None:
    """Write a module's file as another level wants it; how its code is generated stays the same.

    Raises:
        CompileError: the module cannot be read.
    """
    generation = generation_of(module)
    plain = output.with_suffix(".plain.bc")
    try:
        plain.write_bytes(bitcode_of(module.read_bytes()))
        mark_anew(front_end, ir_of(front_end, plain), level, plain)
        write_bytes(output, with_options(plain.read_bytes(), generation.options, generation.index, generation.profile))
    finally:
        plain.unlink(missing_ok=True)
