"""Options of a build's compiles that go on to the configured clang."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.errors import CompilerExit, ConfigError
from mlgo.host.command_line import PASSED_ON_OPTIONS, by_option, check_options
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import PROFILES

_UNKNOWN = re.compile(r"(?:unknown clang option:|unknown argument:?|unsupported option) ['\"]([^'\"]+)['\"]")
_RUNS_CODE = (
    *("-fplugin", "-fpass-plugin", "-load", "-wrapper", "-specs", "--specs", "-B", "--prefix", "-iplugindir"),
    *("-plugin", "-add-plugin", "--config", "@"),
)
_LINK_TIME = (
    "-flto",
    "-fno-lto",
    "-ffat-lto-objects",
    "-fthin-link-bitcode",
    "-fthinlto-index",
    "-fwhole-program-vtables",
)
"""Options that leave code generation to the link; modules are compiled one by one."""

_ONLY_READ = ("-target", "--target", "--sysroot", "-isysroot", *PROFILES)
"""Further options that name a machine or a file to read, where the compiler is that of the build."""

_LEVEL = re.compile(r"-O(?:[0-3sz]|fast|g)?$")


@dataclass(frozen=True)
class Options:
    """Options of a compile, as far as another compiler may take them."""

    front_end: tuple[str, ...]  # for sources: macros, folders, language, code generation
    level: str  # such as `-O2`; empty where none was given
    dropped: tuple[str, ...]  # what stays behind: targets, system roots, colours of messages

    @property
    def code_generation(self) -> tuple[str, ...]:
        """Options that bitcode does not hold, for a compile of it: one section for each function, and the like."""
        return tuple(option for option in self.front_end if option.startswith(("-f", "-m")))


def portable(options: Sequence[str]) -> Options:
    """Sort options."""
    front_end, dropped, level = [], [], ""
    for words in by_option(options):
        refuse_foreign_code(words)
        if _LEVEL.match(words[0]):
            level = "-O1" if words[0] == "-O" else words[0]
            continue
        if words[0].startswith(_LINK_TIME):
            dropped += words
            continue
        try:
            check_options(words)
            front_end += words
        except ConfigError:
            dropped += words
    return Options(tuple(front_end), level, tuple(dropped))


def profile_of(options: Sequence[str], folder: Path) -> tuple[str, Path] | None:
    """The profile that a compile uses: the option and the file, which may not be there; None without one."""
    found = [(one, option[len(one) :]) for option in options for one in PROFILES if option.startswith(one)]
    if not found:
        return None
    path = folder / found[-1][1]
    return found[-1][0], path / "default.profdata" if path.is_dir() else path


def refuse_foreign_code(words: Sequence[str]) -> None:
    """Refuse an option that loads a plug-in, runs another program, or reads further options from a file."""
    if words[0].startswith(_RUNS_CODE) or (words[0] in PASSED_ON_OPTIONS and words[-1].startswith(_RUNS_CODE)):
        raise ConfigError(f"compiled with {' '.join(words)}, which another compiler cannot repeat")


def as_built(options: Sequence[str]) -> Options:
    """Sort options for a compile by the build's own compiler: levels, targets and profiles stay, too."""
    kept, dropped = [], []
    level = portable(options).level
    for words in by_option(options):
        try:
            if not words[0].startswith(_ONLY_READ):
                check_options(words)
            kept += words
        except ConfigError:
            dropped += words
    return Options(tuple(kept), level, tuple(dropped))


def compile_portably(
    front_end: FrontEnd,
    folder: Path,
    language: str,
    options: Sequence[str],
    source: str,
    output: Path,
    profile: tuple[str, Path] | None = None,
) -> list[str]:
    """Compile a source to bitcode without the options that this clang does not know, and return those it did know."""

    def attempt(rest: list[str]) -> None:
        front_end.compile_to_bitcode(folder, language, rest, source, output, profile)

    return without_unknown(options, attempt)


def without_unknown(options: Sequence[str], attempt: Callable[[list[str]], object]) -> list[str]:
    """Try a compile, each time without the option that the compiler did not know, and return those it did know."""
    rest = list(options)
    while True:
        try:
            attempt(rest)
            return rest
        except CompilerExit as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None or unknown[1] not in rest:
                raise
            rest = [option for option in rest if option != unknown[1]]


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
