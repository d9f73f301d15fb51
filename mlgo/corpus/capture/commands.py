"""Steps of a build: a compiler makes objects of sources, an archiver archives, a linker programs."""

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mlgo.corpus.capture.invocations import CRATES, RUSTC, ToolInvocation, response_words, shell_words, tool_and_options
from mlgo.host.command_line import (
    DEPENDENCY_OPTIONS,
    LINK_OPTIONS,
    LINK_WORDS,
    SOURCE_LANGUAGES,
    WITHOUT_CODE,
    by_option,
    linker_takes_value,
    without_passing_on,
)

_X_LANGUAGES = {"c": "c", "cpp-output": "c", "c++": "c++", "c++-cpp-output": "c++"}
_OBJECTIVE = {"-ObjC": "objective-c", "-ObjC++": "objective-c++"}

_DEPENDENCIES = frozenset(("-MD", "-MMD", "-MP", "-MG", *DEPENDENCY_OPTIONS))
_MOST_RESPONSES = 256
"""Response files that a call may read; the driver of ``mlgo cc`` reads as many."""
_NOT_COMPILING = WITHOUT_CODE | {"-S"}


@dataclass(frozen=True)
class CompileStep:
    """One source becomes one object."""

    folder: Path  # where the compiler ran
    source: str  # as it was given
    language: str  # such as `c`, `c++`, `assembler`; empty where its suffix says nothing
    # All but source, output and what only concerns dependency files, warnings or the link.
    options: tuple[str, ...]
    output: Path  # the object, absolute. Where one call compiled and linked, the object was temporary
    temporary: bool = False  # whether the object was
    problem: str = ""  # why the source cannot be compiled again, if that is known already: kind, colon, reason
    program: str = ""  # the compiler that ran, in one or several words for a shell
    bitcode: Path | None = None  # of it before optimization, where a compiler other than clang made it
    contents: Mapping[Path, str] = field(default_factory=dict, compare=False, repr=False)  # see `ToolInvocation`


@dataclass(frozen=True)
class ArchiveStep:
    """Objects are put into an archive."""

    output: Path  # the archive, absolute
    members: tuple[Path, ...]  # objects or archives, absolute, in order; added to what it holds already
    contents: Mapping[Path, str] = field(default_factory=dict, compare=False, repr=False)  # see `ToolInvocation`


@dataclass(frozen=True)
class ExtractStep:
    """Members of an archive become files, as libtool does to put archives together."""

    archive: Path  # absolute
    folder: Path  # where the files come to lie
    contents: Mapping[Path, str] = field(default_factory=dict, compare=False, repr=False)  # see `ToolInvocation`


@dataclass(frozen=True)
class LinkStep:
    """Objects, archives and libraries become a program or a shared object."""

    output: Path  # the file, absolute
    # What it is; a relocatable file is an object made of others.
    kind: Literal["program", "shared", "relocatable"]
    inputs: tuple[Path, ...]  # files, absolute, in order
    libraries: tuple[str, ...] = ()  # names of `-l`, in order
    library_folders: tuple[Path, ...] = ()  # of `-L`, absolute, in order
    whole: frozenset[Path] = frozenset()  # inputs whose members are all linked, as after `--whole-archive`
    options: tuple[str, ...] = ()  # for the linker itself, in order
    version_script: Path | None = None  # file that says which symbols are exported
    export_dynamic: bool = False  # a program that exports its symbols
    entry: str = ""  # name of the entry point, where one is given
    crate: Path | None = None  # the object of the crate that rustc links
    problem: str = ""  # why it is not known what is linked; empty if it is
    contents: Mapping[Path, str] = field(default_factory=dict, compare=False, repr=False)  # see `ToolInvocation`


Step = CompileStep | ArchiveStep | ExtractStep | LinkStep


def steps_of(call: ToolInvocation) -> Iterator[Step]:
    """Steps of a call, compiles first; none for calls that ask for a version, preprocess, or list an archive."""
    arguments = expanded(call)
    unread = next((word for word in arguments if word in call.responses), "")
    problem = call.problem or (unread and f"response: {unread} is too long, or such files name each other")
    contents = {_absolute(call.folder, file): content for file, content in call.contents.items()}
    steps: list[Step]
    if call.tool == "ar":
        steps, problem = list(_archive(call.folder, arguments)), ""
    elif call.tool == RUSTC:
        steps = list(_crate(call.folder, arguments, contents))
    elif call.tool != "ld":
        steps = list(_compiler(call, arguments))
    elif any(word in ("-v", "-V", "--version", "--help") for word in arguments):
        return
    else:
        link = _link(call.folder, arguments, "a.out", through_compiler=False)
        steps = [link] if link.inputs else []
    known: dict[str, Any] = {"contents": contents, **({"problem": problem} if problem else {})}
    yield from (replace(step, **known) for step in steps)


def expanded(call: ToolInvocation) -> list[str]:
    """Arguments of a call with response files in the place of ``@FILE``, and those that are in response files.

    A file that nobody kept stays a word, and so do files that name each other without end. A tool of several words,
    such as ``gcc -m32``, has its own first.
    """
    words = list(tool_and_options(shell_words(call.program) or [call.program])[1])
    rest, num_read = list(reversed(call.arguments)), 0
    while rest:
        word = rest.pop()
        text = call.responses.get(word) if num_read < _MOST_RESPONSES else None
        inside = None if text is None else response_words(text)
        if inside is None:
            words.append(word)
        else:
            num_read += 1
            rest += reversed(inside)
    return words


@dataclass
class _CommandWords:
    """Words of a compiler's command line, sorted."""

    sources: list[tuple[str, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # in order; sources among them
    options: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    output: str = ""
    compiles_only: bool = False
    does_neither: bool = False


def _compiler(call: ToolInvocation, arguments: Sequence[str]) -> Iterator[CompileStep | LinkStep]:
    found = _read_words(call, arguments)
    if found.does_neither:
        return
    objects: dict[str, Path] = {}
    target = _absolute(call.folder, found.output or "a.out")
    if found.compiles_only and not found.sources:  # such as cc -c file.xyz
        found.sources = [(file, "") for file in found.files if not file.startswith("@") and Path(file).suffix != ".o"]
    for source, language in found.sources:
        if found.compiles_only:
            output = _absolute(call.folder, found.output or f"{Path(source).stem}.o")
        else:
            output = target.with_name(f"{target.name}-{Path(source).stem}.o")
            if output in objects.values():
                output = target.with_name(f"{target.name}-{len(objects)}-{Path(source).stem}.o")
        objects[source] = output
        temporary, options = not found.compiles_only, (*_default_options(call), *found.options)
        yield CompileStep(call.folder, source, language, options, output, temporary, program=call.program)
    if not found.compiles_only and found.files:
        words = [str(objects.get(word, word)) for word in found.link]
        link = _link(call.folder, words, str(target), through_compiler=True)
        if _is_zig(call) and link.kind == "program":  # at a fixed address, unless its options say otherwise
            said = [match[1] for match in map(_PIE.fullmatch, arguments) if match]
            link = replace(link, options=(*link.options, "-pie" if said and not said[-1] else "-no-pie"))
        yield link


def _read_words(call: ToolInvocation, arguments: Sequence[str]) -> _CommandWords:
    found, language = _CommandWords(), ""
    is_cxx = call.tool == "c++" and not _is_zig(call)  # zig c++ takes C for C, as no other compiler of C++ does
    for words in by_option(without_passing_on(arguments)):
        word, value = words[0], words[-1]
        if word in _NOT_COMPILING:
            found.does_neither = True
        elif word == "-c":
            found.compiles_only = True
        elif word in ("-o", "--output"):
            found.output = value if len(words) > 1 else ""
        elif word.startswith("--output="):
            found.output = word.partition("=")[2]
        elif word.startswith("-o") and not word.startswith("-object"):
            found.output = word[2:]
        elif word.startswith(("-x", "--language")):
            given = value if len(words) > 1 else word.removeprefix("--language=").removeprefix("-x")
            language = "" if given == "none" else _X_LANGUAGES.get(given, given)
        elif word in _OBJECTIVE:
            language = _OBJECTIVE[word]
        elif word.startswith("--driver-mode="):
            is_cxx = word.endswith("=g++")
        elif word in _DEPENDENCIES or re.match(r"-M[FTQ].", word):
            continue
        elif word.startswith(("-L", "-l", "-Wl,")) or word in LINK_WORDS or word in LINK_OPTIONS:
            found.link += words
        elif word.startswith("-W") or word in ("-w", "-pipe", "-v", "-pedantic", "-pedantic-errors"):
            continue
        elif word.startswith("-") and word != "-":
            found.options += words
        else:
            found.files.append(word)
            found.link.append(word)
            if written := language or SOURCE_LANGUAGES.get(Path(word).suffix, ""):
                found.sources.append((word, "c++" if is_cxx and written == "c" and not language else written))
    return found


_PIE = re.compile(r"-f?(no-?)?(?:pie|PIE)")
"""Options of a compiler for the place of a program; group 1 where it is fixed."""


def _is_zig(call: ToolInvocation) -> bool:
    """Whether the compiler is the driver of zig."""
    return re.search(r"(?:^|[/ '])(?:zig|ziglang|mlgo)'? c(?:c|\+\+)(?!.* --compiler)", call.program) is not None


def _default_options(call: ToolInvocation) -> Sequence[str]:
    """Options that a driver gives clang by itself, and that decide which code a source becomes.

    On x86 zig keeps frame pointers at every level. On other machines that depends on the level, and is not followed.
    """
    return ("-fno-omit-frame-pointer",) if _is_zig(call) and platform.machine() in ("x86_64", "i686") else ()


_KINDS: Mapping[str, Literal["shared", "relocatable"]] = {
    **dict.fromkeys(("-shared", "--shared", "-Bshareable", "-dynamiclib"), "shared"),
    **dict.fromkeys(("-r", "--relocatable", "-i"), "relocatable"),
}
_WHOLE = {"--whole-archive": True, "-whole-archive": True, "--no-whole-archive": False, "-no-whole-archive": False}
_OUTPUT, _ENTRY = ("-o", "--output"), ("-e", "--entry")
_SCRIPT = ("--version-script", "-version-script")
_EXPORTS = ("--export-dynamic", "-export-dynamic", "-E", "-rdynamic")
_READ = {"", "-l", "-L", *_KINDS, *_WHOLE, *_OUTPUT, *_ENTRY, *_SCRIPT, *_EXPORTS}


def _link(folder: Path, words: Sequence[str], output: str, *, through_compiler: bool) -> LinkStep:
    pairs = list(_linker_words(words, through_compiler))

    def values(*names: str) -> list[str]:
        return [value for name, value in pairs if name in names]

    whole, all_members = set(), False
    for name, value in pairs:
        all_members = _WHOLE.get(name, all_members)
        if name == "" and all_members:
            whole.add(_absolute(folder, value))
    inputs = [path for value in values("") if not _SYMBOLS.search(str(path := _absolute(folder, value)))]
    crate = next((_without_unit(path) for path in inputs if _without_unit(path) != path), None)
    scripts, kinds = values(*_SCRIPT), [_KINDS[name] for name, _ in pairs if name in _KINDS]
    return LinkStep(
        _absolute(folder, [output, *values(*_OUTPUT)][-1]),
        kinds[-1] if kinds else "program",
        tuple(dict.fromkeys(map(_without_unit, inputs))),
        tuple(values("-l")),
        tuple(_absolute(folder, value) for value in values("-L")),
        frozenset(whole),
        tuple(word for pair in pairs if pair[0] not in _READ for word in pair if word),
        _absolute(folder, scripts[-1]) if scripts else None,
        any(name in _EXPORTS for name, _ in pairs),
        ["", *values(*_ENTRY)][-1],
        crate,
    )


def _linker_words(words: Sequence[str], through_compiler: bool) -> Iterator[tuple[str, str]]:
    """Options of a linker with their values, and files with an empty name."""
    flat: list[str] = []
    rest = iter(words)
    for word in rest:
        if through_compiler and word.startswith("-Wl,"):
            flat += word.split(",")[1:]
        elif through_compiler and word == "-Xlinker":
            flat.append(next(rest, ""))
        else:
            flat.append(word)
    rest = iter(flat)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            yield "", word
        elif word[:2] in ("-l", "-L") and len(word) > 2:
            yield word[:2], word[2:]
        elif equals and linker_takes_value(name):
            yield name, value
        elif linker_takes_value(word):
            yield word, next(rest, "")
        else:
            yield word, ""


def _without_unit(path: Path) -> Path:
    """The object of a crate, of which rustc links one for each unit, and one for the allocator."""
    return path.with_name(_UNIT.sub(".o", path.name))


_UNIT = re.compile(r"\..*\.rcgu\.o$")
_SYMBOLS = re.compile(r"/rustc\w{6}/symbols\.o$")
"""References to what a crate exports; rustc writes them to a folder with a random name."""


def _crate(folder: Path, arguments: Sequence[str], contents: Mapping[Path, str]) -> Iterator[Step]:
    """A crate of which something ships: its object, and an archive with that alone if others link it."""
    bitcode = next((path for path in contents if path.suffix == ".bc" and path.parent.name == CRATES), None)
    source = next((word for word in arguments if word.endswith(".rs")), "")
    values, codegen = _values_of(arguments), {}
    for option in values.get("-C", []):
        name, _, value = option.partition("=")
        codegen[name] = value
    if bitcode is None or not source:
        return
    place = _absolute(folder, values.get("--out-dir", ["."])[-1])
    name = f"{values.get('--crate-name', [Path(source).stem])[-1]}{codegen.get('extra-filename', '')}"
    made = CompileStep(folder, source, "rust", _GENERATION_OF_RUST, place / f"{name}.o", program=RUSTC, bitcode=bitcode)
    yield made
    if {"lib", "rlib"} & set(values.get("--crate-type", [])):
        yield ArchiveStep(place / f"lib{name}.rlib", (made.output,))


_GENERATION_OF_RUST = ("-ffunction-sections", "-fdata-sections")
"""What rustc does by itself, and bitcode does not say."""


def _values_of(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Values of options of rustc by name, each behind its option, or behind an equals sign."""
    found: dict[str, list[str]] = {}
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            found.setdefault(name, []).append(value)
        elif word.startswith("-C") and len(word) > 2:
            found.setdefault("-C", []).append(word[2:])
        elif word.startswith("-") and place + 1 < len(arguments):
            found.setdefault(word, []).append(arguments[place + 1])
    return found


def _archive(folder: Path, arguments: Sequence[str]) -> Iterator[Step]:
    words = [word for word in arguments if not word.startswith("--")]
    if not words:
        return
    operation, *words = words
    operation = operation.lstrip("-")
    if "x" in operation and words:
        yield ExtractStep(_absolute(folder, words[0]), folder)
    if not set(operation) & set("rq"):
        return
    if set(operation) & set("abi"):  # a member stands before the archive's name
        words = words[1:]
    if not words:
        return
    output, *members = (_absolute(folder, word) for word in words)
    yield ArchiveStep(output, tuple(members))


def _absolute(folder: Path, name: str) -> Path:
    return Path(os.path.normpath(folder / name))
