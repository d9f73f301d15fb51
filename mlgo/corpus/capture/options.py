"""Options of a build's compiles that go on to the configured clang; and level and language of bitcode from others.

Clang writes the level into attributes of functions: ``minsize optsize`` for ``-Oz``, ``optsize`` for ``-Os``, neither
for ``-O1`` to ``-O3``, and ``optnone`` for ``-O0``. The rest of the level is that of the compile.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mlgo.base.files import is_folder, write_bytes
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.build import ir_of
from mlgo.errors import CompilerExit, ConfigError
from mlgo.host.command_line import OPTIONS, PASSED_ON_OPTIONS, PROFILES, RUNS_CODE, SOURCE_LANGUAGES, Option, by_option
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import bitcode_of, generation_of, module_file

_REFUSED, _QUOTED = re.compile(r"(?:[\w./+-]+: )?error: "), re.compile(r"['\"]([^'\"]+)['\"]")
TOLERANT = tuple(f"-Wno-error={warning}" for warning in OPTIONS["tolerated"])
_SPECS = re.compile(
    r"--?specs(?:=.*/(?:redhat-[\w-]+|(?:no-)?pie-(?:compile|link)\.specs)|=(?:nano|nosys|rdimon)\.specs)"
)
"""Files of GCC's own options, of distributions, that choose kinds of programs and of libraries, and no more."""
_NOT_OF_CODE = (*OPTIONS["link_time"], *OPTIONS["not_of_code"], *PROFILES)
_LEVEL = re.compile(r"-O(?:[0-3sz]|fast|g)?$")

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Options:
    """Options of a compile, as far as another compiler may take them."""

    front_end: tuple[str, ...]  # for sources: macros, folders, language, code generation
    level: str  # such as `-O2`; empty where none was given
    dropped: tuple[str, ...]  # what stays behind: targets, system roots, colours of messages


def portable(options: Sequence[str], *, of_build: bool = False) -> Options:
    """Sort options for another compiler, or for the one of the build: for that, levels, targets and profiles stay."""
    front_end, dropped, level = list[str](), list[str](), ""
    for some in by_option(options):
        is_level = _LEVEL.match(some[0]) is not None
        is_other = some[0].startswith(OPTIONS["link_time"]) or _SPECS.fullmatch("=".join(some)) is not None
        level = {"-O": "-O1"}.get(some[0], some[0]) if is_level else level
        if not is_other:
            refuse_foreign_code(some)
        try:
            option = Option.read(some, of_build=of_build) if of_build or not (is_level or is_other) else None
        except ConfigError:
            option = None
        if option is not None:  # one word, unless its name and value cannot be joined
            front_end += some if option.name in ("-target", "--sysroot") else [option.word]
        elif not is_level:
            dropped.append(" ".join(some))
    return Options(tuple(front_end), level, tuple(dropped))


def missed(options: Iterable[str]) -> str:
    """Those of options that were dropped that are of code generation, in one line."""
    is_code = ("-f", "-m", "-X", "--coverage", "-pg")
    return " ".join(one for one in options if one.startswith(is_code) and not one.startswith(_NOT_OF_CODE))


def profile_of(options: Sequence[str], folder: Path) -> tuple[str, Path] | None:
    """The profile that a compile uses: the option and the file, which may not be there; None without one."""
    found = [(one, option[len(one) :]) for option in options for one in PROFILES if option.startswith(one)]
    if not found:
        return None
    path = folder / found[-1][1]
    return found[-1][0], path / "default.profdata" if is_folder(path) else path


def refuse_foreign_code(some: Sequence[str]) -> None:
    """Refuse an option that loads a plug-in, runs another program, or reads further options from a file."""
    if some[0].startswith(RUNS_CODE) or (some[0] in PASSED_ON_OPTIONS and some[-1].startswith(RUNS_CODE)):
        raise ConfigError(f"compiled with {' '.join(some)}, which another compiler cannot repeat")


def without_unknown(options: Sequence[str], attempt: Callable[[list[str]], _Result]) -> tuple[list[str], _Result]:
    """Try a compile, each time without the option that the compiler refused; those that it took, and the result."""
    rest = list(options)
    while True:
        try:
            return rest, attempt(rest)
        except CompilerExit as error:
            named = _QUOTED.findall(str(error)) if _REFUSED.match(str(error)) else []
            refused = next((option for option in rest for name in named if _is_called(option, name)), None)
            if refused is None:
                raise
            rest = [option for option in rest if option != refused]


def _is_called(option: str, name: str) -> bool:
    """Whether a compiler means an option: by all of it, or one of code generation by its name or its value."""
    is_value = option.partition("=")[2].replace("-", "_") == name.replace("-", "_")
    is_code = option.startswith(("-f", "-m"))
    return option == name or (is_code and (is_value or (name.endswith("=") and option.startswith(name))))


def options_in_command(words: Iterable[str]) -> tuple[str, ...]:
    """Options of code generation in the command that made a module: arguments of ``-cc1``, or of clang itself.

    Most of a command is in the module already, or is for its sources. What is left has one spelling for clang, but
    for the kind of relocations.
    """
    found, model, level, is_pie = list[str](), "", "", False
    rest = iter(words)
    for word in rest:
        refuse_foreign_code([word])
        if word == "-mrelocation-model":
            model = next(rest, "")
        elif word == "-pic-level":
            level = next(rest, "")
        elif word == "-pic-is-pie":
            is_pie = True
        elif _CODE_GENERATION.fullmatch(word):
            found.append(word)
    if model == "static":
        found.append("-fno-pic")
    elif model == "pic" and not is_pie:  # code for programs that may lie anywhere is clang's default
        found.append("-fpic" if level == "1" else "-fPIC")
    return tuple(found)


_CODE_GENERATION = re.compile(
    r"-f(?:no-)?(?:(?:function|data)-sections|unique-section-names|pic|PIC|pie|PIE|(?:un)?roll-loops|emulated-tls"
    r"|zero-initialized-in-bss|use-init-array|split-machine-functions)"
    r"|-ffp-contract=(?:off|fast)|-mcmodel=\w+|-mlarge-data-threshold=\d+"
)


_SOURCE = re.compile(rb'^source_filename = "([^"]*)"', re.MULTILINE)
_DEFINITION = re.compile(rb"^define [^\n]* #(\d+)(?= |\n)[^\n]*\{$", re.MULTILINE)
_GROUP = re.compile(rb"^attributes #(\d+) = \{ ([^\n]*) \}$", re.MULTILINE)
_RUSTC = re.compile(rb'^!\d+ = !\{!"rustc version ', re.MULTILINE)
_MANGLED = re.compile(rb"@_Z\w")

_LEVELS = {
    "-Oz": frozenset({b"minsize", b"optsize"}),
    "-Os": frozenset({b"optsize"}),
    "-O0": frozenset({b"optnone"}),
}
_SPEED = "-O1 to -O3"


def language_of(ir: bytes) -> str:
    """Language of a module by its maker or the suffix of its source, else ``c++`` where names are mangled so."""
    if _RUSTC.search(ir):
        return "rust"
    found = _SOURCE.search(ir)
    suffix = PurePosixPath(found[1].decode(errors="replace")).suffix if found else ""
    return SOURCE_LANGUAGES.get(suffix) or ("c++" if _MANGLED.search(ir) else "c")


def level_of(ir: bytes) -> str:
    """Level that most functions of a module were compiled with; empty where none is defined."""
    groups = dict(_GROUP.findall(ir))
    words = [set(groups.get(number, b"").split(b" ")) for number in _DEFINITION.findall(ir)]
    found = Counter(next((level for level, marks in _LEVELS.items() if marks <= some), _SPEED) for some in words)
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


def mark_anew(front_end: FrontEnd, ir: bytes, level: str, bitcode: Path) -> None:
    """Write bitcode of textual IR, its functions marked as a compile at a level marks them."""
    with scratch_directory() as folder:
        (folder / "module.ll").write_bytes(with_level(ir, level))
        front_end.convert(folder / "module.ll", bitcode, "-c")


def module_at_level(front_end: FrontEnd, module: Path, level: str, output: Path) -> None:
    """Write a module's file as another level wants it, with its own code generation; CompileError if unreadable."""
    generation = generation_of(module)
    with scratch_directory() as folder:
        plain = folder / "module.bc"
        plain.write_bytes(bitcode_of(module.read_bytes()))
        mark_anew(front_end, ir_of(front_end, plain), level, plain)
        write_bytes(output, module_file(plain.read_bytes(), replace(generation, program=None, variants=())))
