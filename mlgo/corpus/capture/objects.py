"""Objects that a build's own compiler made, read right after the build, because they may go."""

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlgo.base.artifacts import Row
from mlgo.base.files import file_sha256
from mlgo.corpus.capture.bitcode import is_bitcode
from mlgo.corpus.capture.builds import BuildUnit, as_text
from mlgo.corpus.capture.options import portable
from mlgo.errors import CompileTimeout, ConfigError, ObjectError
from mlgo.objects.elf import SHF_ALLOC, read_sections, section_name, text_size

_TIMEOUT_S = 30.0
_VERSION = re.compile(r"^.*\b(?:clang|gcc) version \S+.*$", re.MULTILINE)
_QUOTED_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTED_CALL = re.compile(r'^ "(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*', re.DOTALL | re.MULTILINE)
_NO_CONTENT = 8  # SHT_NOBITS


@dataclass(frozen=True)
class Compiler:
    """The compiler of a build."""

    version: str  # what it says it is
    sha256: str = ""  # hash of the executable that compiles; empty where it could not be asked
    # Kind of its command line. `zig` is `zig cc`, which adds options of its own to clang's.
    driver: Literal["zig", "clang", "other"] = "other"


def object_rows(project: str, units: Sequence[BuildUnit], *, ran: bool) -> list[Row]:
    """Rows of ``artifacts.OBJECTS_OF_BUILD``, in the order of units.

    Args:
        project: name in the corpus.
        units: of the build.
        ran: the build has just run its compilers. A compiler that only a database names is asked what it is if PATH
            has it, since the database may come from others.
    """
    last = {unit.compile.output: unit.name for unit in units}
    return [_row(project, unit, ran, last[unit.compile.output] == unit.name) for unit in units]


def measured_object(data: bytes) -> tuple[int, str]:
    """Text of an object in bytes, and the hash of what is loaded of it, whatever the order of its sections.

    Linkers and ``zig cc`` write the tables of an object anew; code and data stay the same.
    """
    sections = read_sections(data)
    loaded = []
    for number in ((sections["flags"] & SHF_ALLOC) != 0).nonzero()[0]:
        one = sections[number]
        start = int(one["offset"])
        content = b"" if one["type"] == _NO_CONTENT else data[start : start + int(one["size"])]
        head = b"%s\0%d\0%d\0" % (section_name(data, sections, int(number)), one["flags"] & 7, one["size"])
        loaded.append(head + hashlib.sha256(content).digest())
    return text_size(sections), hashlib.sha256(b"".join(sorted(loaded))).hexdigest()


@functools.cache
def identify(program: str) -> Compiler:
    """Ask a compiler what it is; ``program`` is one or several words for a shell."""
    command = [*shlex.split(program), "-###", "-x", "c", "-c", os.devnull, "-o", os.devnull]
    try:
        plan = driver_plan(command, _TIMEOUT_S)
    except (OSError, CompileTimeout):
        return Compiler(program)
    found = _VERSION.search(plan)
    version = found[0].strip() if found else program
    words = front_end_words(plan)
    if words is None or not Path(words[0]).is_file():
        binary = shutil.which(command[0])
        return Compiler(version, file_sha256(Path(binary)) if binary and found else "")
    return Compiler(version, file_sha256(Path(words[0])), "zig" if "-nostdsysteminc" in words else "clang")


def driver_plan(
    command: Sequence[str], timeout_s: float, *, cwd: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Output of a compiler's driver for a command with ``-###``; bytes that are no UTF-8 become surrogates."""
    try:
        run = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CompileTimeout(f"no end within {timeout_s:g} s") from error
    return run.stderr


def front_end_words(plan: str) -> list[str] | None:
    """The call of clang's own front end in what a driver prints for ``-###``; None if there is not exactly one.

    Each word of a call stands in quotes, with a backslash before quotes, backslashes and dollars in it.
    """
    calls = [call for call in _QUOTED_CALL.findall(plan) if '"-cc1"' in call]
    return [re.sub(r"\\(.)", r"\1", word) for word in _QUOTED_WORD.findall(calls[0])] if len(calls) == 1 else None


def _row(project: str, unit: BuildUnit, ran: bool, is_last: bool) -> Row:
    one = unit.compile
    source = Path(one.folder, one.source)
    compiler = identify(one.program) if ran or _on_path(one.program) else Compiler(one.program)
    text, sha256, contents, missing = None, "", "", ""
    words = [str(one.folder), one.source, *one.options]
    if [as_text(word) for word in words] != words:
        missing = "bytes: a path that is no UTF-8 is not kept"
    elif one.temporary:
        missing = "temporary: one call compiled and linked"
    elif not is_last:
        missing = "replaced: a later compile wrote the same object"
    else:
        try:
            data = one.output.read_bytes()
            sha256 = hashlib.sha256(data).hexdigest()
            text, contents = measured_object(data)
        except OSError:
            missing = "gone: the build deleted its object"
        except ObjectError:
            missing = "bitcode: the link makes the code" if is_bitcode(data) else "format: no ELF object of 64 bits"
    return {
        "project": project,
        "module": unit.name,
        "language": one.language,
        "compiler": as_text(compiler.version),
        "compiler_sha256": compiler.sha256,
        "driver": compiler.driver,
        "folder": as_text(str(one.folder)),
        "source": as_text(one.source),
        "source_sha256": file_sha256(source) if source.is_file() else "",
        "options": [as_text(option) for option in one.options],
        "level": _level(one.options),
        "text_bytes": text,
        "object_sha256": sha256,
        "contents_sha256": contents,
        "missing": missing,
    }


def _level(options: Sequence[str]) -> str:
    try:
        return portable(options).level
    except ConfigError:
        return ""


def _on_path(program: str) -> bool:
    """Whether a word is what PATH gives for its name."""
    name = Path(program).name
    return shutil.which(name) == shutil.which(program) is not None
