"""Objects of a build: read right after the build, because they may go, and compared with sources compiled again.

A source is compiled again as modules are: to bitcode before optimization, then to an object. Only the level and the
options are those of the build, not those of the corpus. The build's driver itself prints the call of clang's front end
(``-###``), so what ``zig cc`` adds is there, too.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mlgo.base.artifacts import Row, RowView
from mlgo.base.files import file_sha256, is_file, is_folder, read_input
from mlgo.base.names import OF_CLANG
from mlgo.base.scratch import scratch_directory
from mlgo.base.threads import in_threads
from mlgo.corpus.capture.bitcode import is_bitcode
from mlgo.corpus.capture.builds import Build, BuildUnit, as_text
from mlgo.corpus.capture.invocations import shell_words
from mlgo.corpus.capture.options import TOLERANT, portable, profile_of, without_unknown
from mlgo.errors import CompileError, CompilerExit, CompileTimeout, ConfigError, ObjectError, ToolchainError
from mlgo.host.command_line import by_option, checked, for_zig, language_words, source_word
from mlgo.host.frontend import await_compiler, first_error
from mlgo.host.process import Child
from mlgo.host.toolchain import Toolchain, zig_environment
from mlgo.objects.elf import SHF_ALLOC, SHT_NOBITS, read_sections, section_contents, section_names, text_size

_TIMEOUT_S = 30.0
_MAX_PLAN_BYTES = 1 << 24
_VERSION = re.compile(r"^.*\b(?:clang|gcc) version \S+.*$", re.MULTILINE)
_QUOTED_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTED_CALL = re.compile(r'^ "(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Compiler:
    """The compiler of a build."""

    version: str  # what it says it is
    sha256: str = ""  # hash of the executable that compiles; empty where it could not be asked
    # Kind of its command line. `zig` is `zig cc`, which adds options of its own to clang's; `mlgo` is `mlgo cc`.
    driver: Literal["zig", "mlgo", "clang", "other"] = "other"


def object_rows(project: str, units: Sequence[BuildUnit], *, ran: bool) -> list[Row]:
    """Rows of ``artifacts.OBJECTS_OF_BUILD``, in the order of units.

    Unless the build ``ran`` just now, a compiler is asked what it is only if PATH has it: a database may come from
    others.
    """
    last = {unit.object: unit.name for unit in units}
    return [_row(project, unit, ran, last[unit.object] == unit.name) for unit in units]


def measured_object(data: bytes) -> tuple[int, str]:
    """Text of an object in bytes, and the hash of what is loaded of it, whatever the order of its sections."""
    sections = read_sections(data)
    some, loaded = sections[(sections["flags"] & SHF_ALLOC) != 0], []
    for name, one in zip(section_names(data, sections, some), some, strict=True):
        content = b"" if one["type"] == SHT_NOBITS else section_contents(data, one)
        head = b"%s\0%d\0%d\0" % (name, one["flags"] & 7, one["size"])
        loaded.append(head + hashlib.sha256(content).digest())
    return text_size(sections), hashlib.sha256(b"".join(sorted(loaded))).hexdigest()


@functools.cache
def identify(program: str) -> Compiler:
    """Ask a compiler what it is; ``program`` is one or several words for a shell."""
    command = [*(shell_words(program) or [program]), "-###", "-x", "c", "-c", os.devnull, "-o", os.devnull]
    try:
        plan = driver_plan(command, _TIMEOUT_S)
    except (ToolchainError, CompileError):
        return Compiler(program)
    found = _VERSION.search(plan)
    version = found[0].strip() if found else program
    words = front_end_words(plan)
    if words is None or not is_file(Path(words[0])):
        binary = shutil.which(command[0])
        return Compiler(version, file_sha256(Path(binary)) if binary and found else "")
    zig: Literal["mlgo", "zig"] = "mlgo" if any(Path(word).name == "mlgo" for word in command) else "zig"
    return Compiler(version, file_sha256(Path(words[0])), zig if "-nostdsysteminc" in words else "clang")


_HEADERS = re.compile(r"^#include <\.\.\.> search starts here:\n((?: .*\n)*)", re.MULTILINE)
_PLACING = re.compile(
    r"-m(?:16|32|64|x32|abi=.*)|--?(?:target|sysroot)(?:=.*)?|-isysroot.*|-stdlib=.*|-nostd(?:lib)?inc"
)
"""Options that decide where a compiler looks for headers of the system."""


def with_system_headers(build: Build, is_own: Callable[[str], bool]) -> Build:
    """A build whose units look for headers where their compilers did, too, behind all other folders.

    So headers of installed libraries are found, and the configured clang's own stay the first. A compiler that is not
    ``is_own``, the user's, is not asked.
    """
    units = []
    for unit in build.units:
        step = unit.compile
        if step.language in OF_CLANG and is_own(step.program) and is_folder(step.folder):
            placing = [word for some in by_option(step.options) if _PLACING.fullmatch(some[0]) for word in some]
            folders = header_folders(step.program, step.language, tuple(placing), step.folder if placing else None)
            after = [word for folder in folders for word in ("-idirafter", folder)]
            unit = replace(unit, compile=replace(step, options=(*step.options, *after)))
        units.append(unit)
    return replace(build, units=tuple(units))


@functools.cache
def header_folders(program: str, language: str, options: tuple[str, ...], folder: Path | None) -> tuple[str, ...]:
    """Where a compiler looks for headers, without those of a library of C++, which goes with its own clang."""
    command = [*(shell_words(program) or [program]), *options, "-E", "-v", "-x", language, os.devnull]
    try:
        said = driver_plan(command, _TIMEOUT_S, cwd=folder, env={**os.environ, "LC_ALL": "C"})
    except (ToolchainError, CompileError):
        return ()
    found = _HEADERS.search(said)
    folders = [Path(line.strip()) for line in found[1].splitlines()] if found else []
    return tuple(str(path) for path in folders if path.is_dir() and "c++" not in path.parts)


def driver_plan(
    command: Sequence[str], timeout_s: float, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Output of a compiler's driver for a command with ``-###``; bytes that are no UTF-8 become surrogates."""
    with Child(command, cwd=cwd, env=env, tail_bytes=_MAX_PLAN_BYTES) as driver:
        if driver.wait(time.monotonic() + timeout_s) is None:
            raise CompileTimeout(f"no end within {timeout_s:g} s")
        return driver.tail.decode(errors="surrogateescape")


def front_end_words(plan: str) -> list[str] | None:
    """The call of clang's own front end in what a driver prints for ``-###``; None if there is not exactly one.

    Each word of a call stands in quotes, with a backslash before quotes, backslashes and dollars in it.
    """
    calls = [call for call in _QUOTED_CALL.findall(plan) if '"-cc1"' in call]
    return [re.sub(r"\\(.)", r"\1", word) for word in _QUOTED_WORD.findall(calls[0])] if len(calls) == 1 else None


def _row(project: str, unit: BuildUnit, ran: bool, is_last: bool) -> Row:
    one = unit.compile
    source = Path(one.folder, one.source)
    on_path = shutil.which(Path(one.program).name)
    known = ran or (on_path is not None and on_path == shutil.which(one.program))
    compiler = identify(one.program) if known else Compiler(one.program)
    text, sha256, contents, missing, level = None, "", "", "", ""
    with contextlib.suppress(ConfigError):
        level = portable(one.options).level
    words = [str(one.folder), one.source, *one.options]
    if [as_text(word) for word in words] != words:
        missing = "bytes: a path that is no UTF-8 is not kept"
    elif one.temporary:
        missing = "temporary: one call compiled and linked"
    elif not is_last:
        missing = "replaced: a later compile wrote the same object"
    else:
        try:
            data = read_input(unit.object)
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
        "source_sha256": file_sha256(source) if is_file(source) and os.access(source, os.R_OK) else "",
        "options": [as_text(option) for option in one.options],
        "level": level,
        "text_bytes": text,
        "object_sha256": sha256,
        "contents_sha256": contents,
        "missing": missing,
    }


# What zig cc adds to clang's own options, and what a build without it does not have.
_WITHOUT_ADDED = ("-g0", "-fno-sanitize=all", "-fomit-frame-pointer")
_DATE = "date-time"
# A profile of LLVM's runtime tells a function by its code; one of samples does not, so LLVM has to count lines.
_PROFILE = (
    *("-Wno-everything", "-Wbackend-plugin", "-Wprofile-instr-out-of-date"),
    *("-mllvm", "-sample-profile-check-record-coverage=80"),
)
_OF_PROFILE = re.compile(r"^.*(?= \[-W(?:backend-plugin|profile-instr-out-of-date)\]$)", re.MULTILINE)


@dataclass(frozen=True)
class Recompiler:
    """Compiles sources as their builds did."""

    toolchain: Toolchain  # the configured clang
    timeout_s: float  # deadline of each step
    cache_dir: Path  # folder for zig's caches
    num_threads: int  # compiles at a time

    def verify(self, rows: Sequence[RowView]) -> Iterator[Row]:
        """Rows of ``artifacts.VERIFIED`` for rows of ``artifacts.OBJECTS_OF_BUILD``, in their order."""
        return in_threads(self._verify, rows, self.num_threads)

    def _verify(self, row: RowView) -> Row:
        names = ("project", "module", "compiler", "level", "text_bytes")
        found: Row = {name: row[name] for name in names}
        found |= {"recompiled_bytes": None, "same_contents": False, "other_profile": ""}
        reason = row["missing"] or _source_is_other(row)
        if not reason:
            try:
                expected = row["text_bytes"], row["contents_sha256"]
                objects, found["other_profile"] = self.recompile(row)
                measured = map(measured_object, objects)
                size, contents = max(measured, key=lambda one: (one == expected, one[0] == expected[0]))
                found |= {"recompiled_bytes": size, "same_contents": contents == row["contents_sha256"]}
                reason = "" if size == row["text_bytes"] else self._reason(row)
            except ConfigError as error:
                reason = f"options: {error}"
            except CompileError as error:
                reason = f"{error.kind}: {str(error).replace(row['folder'] + '/', '')}"
        return found | {"reason": reason.partition(":")[0], "message": reason}

    def recompile(self, row: RowView) -> tuple[list[bytes], str]:
        """The object that a row's source becomes, by way of bitcode, and what LLVM says against its profile."""
        with scratch_directory() as folder:
            bitcode, result = folder / "module.bc", folder / "module.o"
            *options, x, language, source = self._front_end(row, result)
            if x != "-x" or "-emit-obj" not in options:
                raise CompilerExit("the driver of the build does not make an object of it")
            replaced = {str(result): str(bitcode), "-emit-obj": "-emit-llvm-bc"}
            unoptimized = [options[0], "-disable-llvm-passes", *(replaced.get(one, one) for one in options[1:])]
            said = _PROFILE if profile_of(row["options"], Path(row["folder"])) else ["-w"]
            warnings = self._run(row, [*unoptimized, *said, x, language, source])
            warnings += self._run(row, [*options, *said, "-x", "ir", str(bitcode)])
            found = [result.read_bytes()]
            if self.is_same(row) and row["driver"] in ("zig", "mlgo"):
                level = [checked("level", row["level"], "level")] if row["level"] else []
                self._run(row, [*level, "-c", str(result), "-o", str(result)], self._driver(row))
                found.append(result.read_bytes())
            first = _OF_PROFILE.search(warnings)
            return found, as_text(first[0]).replace(row["folder"] + "/", "") if first else ""

    def _front_end(self, row: RowView, output: Path) -> list[str]:
        """Arguments of clang's front end that the driver of the build makes of a row's options."""

        def ask(options: Sequence[str]) -> list[str]:
            named = [*language_words(row["source"], row["language"]), "-c", source_word(row["source"])]
            is_translated = self.toolchain.is_zig and (not same or row["driver"] == "mlgo")
            taken = for_zig(options) if is_translated else options
            command = [*self._driver(row), *taken, *named, "-o", str(output), "-###"]
            plan = driver_plan(command, self.timeout_s, cwd=Path(row["folder"]), env=zig_environment(self.cache_dir))
            words = front_end_words(plan)
            if words is None:
                raise CompilerExit(as_text(first_error(plan, "the compiler ended without a word")))
            return words[1:]

        same = self.is_same(row)
        options = portable(row["options"], of_build=same)
        level = () if same or not options.level else (options.level,)
        return without_unknown([*level, *options.front_end, *TOLERANT], ask)[1]

    def is_same(self, row: RowView) -> bool:
        """Whether the build's compiler is the configured one."""
        return row["driver"] != "other" and row["compiler_sha256"] == self.toolchain.sha256

    def _driver(self, row: RowView) -> list[str]:
        """Start of the command: nothing of it is taken from the row, which may come from others."""
        if not self.is_same(row):
            return [*self.toolchain.front_end(row["language"]), *_WITHOUT_ADDED]
        if row["driver"] == "mlgo":
            return self.toolchain.driver(row["language"])
        binary, is_cxx = str(self.toolchain.binary), row["language"] == "c++"
        if row["driver"] == "zig":
            return [binary, "c++" if is_cxx else "cc"]
        return [binary, *(["clang"] if self.toolchain.is_zig else []), *(["--driver-mode=g++"] if is_cxx else [])]

    def _run(self, row: RowView, arguments: Sequence[str], program: Sequence[str] = ()) -> str:
        command = [*(program or self.toolchain.clang), *arguments]
        compiler = Child(command, cwd=Path(row["folder"]), env=zig_environment(self.cache_dir))
        return await_compiler(compiler, self.timeout_s)

    def _reason(self, row: RowView) -> str:
        """Kind and text of the most likely reason why the sizes differ."""
        if not self.is_same(row):
            return f"compiler: built by {row['compiler']}, so only the sizes can be compared"
        if self._uses_the_time(row):
            return "time: it has __DATE__ or __TIME__ in it"
        dropped = portable(row["options"], of_build=True).dropped
        if dropped:
            return f"options: compiled with {' '.join(dropped)}, which is not repeated"
        return "unknown: sizes differ, and no known reason was found"

    def _uses_the_time(self, row: RowView) -> bool:
        *options, _, language, source = self._front_end(row, Path("unused.o"))
        options = [option for option in options if option not in ("-emit-obj", f"-Werror={_DATE}")]
        try:
            warnings = self._run(row, [options[0], "-fsyntax-only", f"-W{_DATE}", *options[1:], "-x", language, source])
        except CompileError:
            return False
        return f"[-W{_DATE}]" in warnings


def _source_is_other(row: RowView) -> str:
    """Reason why a source cannot be compiled as it was; empty if it can."""
    folder, source = Path(row["folder"]), Path(row["folder"], row["source"])
    if not is_folder(folder):
        return f"gone: folder {folder.name}, where it was compiled, is no longer there"
    if not is_file(source):
        return f"gone: {row['source']} is no longer there"
    if file_sha256(source) != row["source_sha256"]:
        return f"changed: {row['source']} is another one since the capture"
    profile = profile_of(row["options"], folder)
    if profile is not None and not is_file(profile[1]):
        return f"profile: {profile[1].name}, which {profile[0]} names, is no longer there"
    return ""
