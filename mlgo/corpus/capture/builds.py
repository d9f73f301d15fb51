"""From the steps of a build to its units and programs: which sources make which linked file, through which archives."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from filecmp import cmp
from itertools import chain
from pathlib import Path
from typing import Literal

from mlgo.corpus.capture.bitcode import BitcodeUnit
from mlgo.corpus.capture.commands import (
    ArchiveStep,
    CompileStep,
    ExtractStep,
    LinkStep,
    Step,
    expanded,
    steps_of,
)
from mlgo.corpus.capture.invocations import RECORDS, ToolInvocation, read_invocations, tool_and_options
from mlgo.errors import ConfigError, CorpusError
from mlgo.host.command_line import link_words
from mlgo.host.linker import await_linker
from mlgo.host.process import Child
from mlgo.host.toolchain import find_linker, zig_environment

_SHARED = re.compile(r"\.(?:so(?:\.[\d.]+)?|dylib|dll)$")
_PROBES = ("CompilerId", "_CMakeLTOTest")
"""Beginnings of folders in which CMake tries a compiler, and leaves what it made."""


@dataclass(frozen=True)
class BuildUnit:
    """One compile of a build."""

    # Of the module: its source, relative to the build's root. Where a source is compiled more than once, the
    # object's name follows after `@`.
    name: str
    compile: CompileStep  # what was done


@dataclass(frozen=True)
class LinkPart:
    """Units that stand together in a link."""

    units: tuple[str, ...]  # names, in order
    # `object` is always linked, members of an `archive` only where something needs them.
    kind: Literal["object", "archive"]


@dataclass(frozen=True)
class BuiltProgram:
    """A linked file: a program or a shared object."""

    name: str  # path relative to the build's root
    link: LinkStep  # what was done
    parts: tuple[LinkPart, ...]  # what was linked and compiled in this build, in order
    foreign: tuple[str, ...]  # inputs that were not: libraries of the system, objects of other builds


@dataclass(frozen=True)
class Build:
    """Units and linked files of a build."""

    units: tuple[BuildUnit, ...]  # in the order of compiling
    programs: tuple[BuiltProgram, ...]  # in the order of linking
    left_out: Mapping[str, str] = field(default_factory=dict)  # why a linked file is not among them, by name
    modules: tuple[BitcodeUnit, ...] = ()  # bitcode that was there already
    notes: tuple[str, ...] = ()  # what a user should know of it, a line each


def read_build(steps: Iterable[Step], root: Path, temporary: Sequence[Path] = ()) -> Build:
    """Put the steps of a build, in the order of time, together; names are relative to its root.

    A file that is made again replaces what it was before, but what was linked with it keeps it. Names say ``tmp`` for
    ``temporary`` folders, those with random or machine-specific names, the longest first: so they are the same in every
    build.
    """

    def name(path: Path) -> str:
        text = as_text((path.relative_to(root) if path.is_relative_to(root) else path).as_posix())
        for folder in temporary:
            text = text.replace(f"{folder}/", "tmp/")
        return text

    compiles: list[CompileStep] = []
    held: dict[Path, list[int]] = {}  # by object or archive: numbers of the compiles in it
    archives: set[Path] = set()
    links: dict[Path, tuple[LinkStep, list[tuple[Path, list[int]]]]] = {}
    for step in steps:
        if isinstance(step, CompileStep):
            held[step.output] = [len(compiles)]
            archives.discard(step.output)
            compiles.append(step)
        elif isinstance(step, ArchiveStep):
            before = held.get(step.output, []) if step.output in archives else []
            added = [number for member in step.members for number in held.get(member, [])]
            again = {compiles[number].output for number in added}
            held[step.output] = [n for n in before if compiles[n].output not in again] + list(dict.fromkeys(added))
            archives.add(step.output)
        elif isinstance(step, ExtractStep):
            for number in held.get(step.archive, []):
                held[step.folder / compiles[number].output.name] = [number]
        elif step.kind == "relocatable":
            held[step.output] = [number for path in step.inputs for number in held.get(path, [])]
            archives.discard(step.output)
        else:
            links.pop(step.output, None)
            inputs = [path for path in _with_libraries(step, archives) if path != step.output]
            numbers = [list(held.get(original_archive(path, archives), [])) for path in inputs]
            links[step.output] = step, list(zip(inputs, numbers, strict=True))
    last = {one.output: number for number, one in enumerate(compiles)}
    linked = {number for _, inputs in links.values() for _, numbers in inputs for number in numbers}
    wanted = [number for number, one in enumerate(compiles) if last[one.output] == number or number in linked]
    names = _names([compiles[number] for number in wanted], name)
    by_number = dict(zip(wanted, names, strict=True))
    programs = [
        BuiltProgram(
            name(link.output),
            link,
            tuple(
                LinkPart(tuple(by_number[n] for n in numbers), _kind(path, link, archives))
                for path, numbers in inputs
                if numbers
            ),
            tuple([name(path) for path, numbers in inputs if not numbers]),
        )
        for link, inputs in links.values()
        if any(numbers for _, numbers in inputs) and not link.problem
    ]
    left_out = {name(link.output): link.problem for link, _ in links.values() if link.problem}
    return Build(tuple(BuildUnit(by_number[n], compiles[n]) for n in wanted), tuple(programs), left_out)


def recorded_build(folder: Path, root: Path, temporary: Sequence[Path] = ()) -> Build:
    """The build that wrappers have recorded in a folder, without what only tried the compiler; see `read_build`.

    Left out are files that are gone, and CMake's own tests.
    """
    build = read_build(chain.from_iterable(map(steps_of, read_invocations(folder / RECORDS))), root, temporary)
    programs = tuple(one for one in build.programs if _is_product(one.link.output))
    linked = {name for one in programs for part in one.parts for name in part.units}
    units = tuple(one for one in build.units if one.name in linked or _is_product(one.compile.output))
    return replace(build, units=units, programs=programs)


def _is_product(output: Path) -> bool:
    return output.exists() and not any(part.startswith(_PROBES) for part in output.parts)


def as_text(name: str) -> str:
    r"""A name or message as tables hold it: bytes of a path that are no UTF-8 become ``\xNN``."""
    try:
        return os.fsencode(name).decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half a character of JSON
        return name.encode(errors="backslashreplace").decode()


def _with_libraries(link: LinkStep, archives: set[Path]) -> list[Path]:
    """Inputs of a link, and archives of the build that ``-l`` found in its folders."""
    found = list(link.inputs)
    for name in link.libraries:
        file = name[1:] if name.startswith(":") else f"lib{name}.a"
        made = [
            path for folder in link.library_folders if original_archive(path := folder / file, archives) in archives
        ]
        found += made[:1]
    return found


def original_archive(path: Path, archives: Collection[Path]) -> Path:
    """The archive of the build that a file is a copy of, as ``make install`` makes; else the file itself."""
    is_known = path in archives or path.suffix != ".a"
    same = [] if is_known else [one for one in archives if one.name == path.name]
    return next((one for one in same if one.is_file() and path.is_file() and cmp(one, path, shallow=False)), path)


def _kind(path: Path, link: LinkStep, archives: set[Path]) -> Literal["object", "archive"]:
    is_archive = original_archive(path, archives) in archives and path not in link.whole
    return "archive" if is_archive and not _SHARED.search(path.name) else "object"


def _names(compiles: Sequence[CompileStep], name: Callable[[Path], str]) -> list[str]:
    sources = [name(Path(os.path.normpath(one.folder / one.source))) for one in compiles]
    counts = Counter(sources)
    names = [f"{s}@{name(one.output)}" if counts[s] > 1 else s for s, one in zip(sources, compiles, strict=True)]
    return unique_names(names)  # one source, one object, compiled twice, and both were linked


def unique_names(names: Iterable[str]) -> list[str]:
    """Names with ``#2`` and so on after those that came before."""
    taken: dict[str, int] = {}
    return [free_name(name, taken) for name in names]


def free_name(name: str, taken: dict[str, int]) -> str:
    """A name that is not taken yet, which then is; ``taken`` counts how often each was asked for."""
    free = name
    while free in taken:
        taken[name] += 1
        free = f"{name}#{taken[name]}"
    taken[free] = 1
    return free


@dataclass
class Relink:
    """Archives and links of a build, with other objects in the place of its own.

    Objects that nobody gives are those of the build, as far as they are still there. Nothing of the build changes. The
    build may be one of others: see `check`.
    """

    objects: Mapping[str, Path]  # other objects, by name of the unit
    folder: Path  # for the files
    cache_dir: Path  # folder for zig's caches
    timeout_s: float  # deadline of each link
    _made: dict[Path, Path] = field(default_factory=dict)  # by path in the build
    _members: dict[Path, list[Path]] = field(default_factory=dict)  # by archive

    @staticmethod
    def check(calls: Iterable[ToolInvocation], build: Build, tools: Collection[tuple[str, ...]]) -> None:
        """See that links can be done again by programs of the user.

        Args:
            tools: words of programs that may run.
        """
        links = {program.link for program in build.programs}
        wanted: dict[tuple[str, ...], None] = {}
        for call in calls:
            for step in steps_of(call):
                if isinstance(step, LinkStep) and (step.kind == "relocatable" or step in links):
                    wanted[tuple(shlex.split(call.program))] = None
                    _relink_words(call, step)
        if strange := [shlex.join(words) for words in wanted if words not in tools]:
            raise CorpusError(
                f"the record of the build links by programs that nobody has named: {', '.join(strange)}; if they are "
                f"yours, name them: --tools {' '.join(map(shlex.quote, strange))} (CC, CXX and LD count, too)"
            )

    def run(self, calls: Iterable[ToolInvocation], build: Build) -> dict[str, Path]:
        """Link the programs of a build; `LinkError` where one of its tools refuses."""
        names = {unit.compile: unit.name for unit in build.units}
        programs = {program.link: program.name for program in build.programs}
        for call in calls:
            for step in steps_of(call):
                if isinstance(step, CompileStep):
                    self._made.pop(step.output, None)
                    if (name := names.get(step)) in self.objects:
                        self._made[step.output] = self.objects[str(name)]
                elif isinstance(step, ArchiveStep):
                    self._archive(step)
                elif isinstance(step, ExtractStep):
                    for member in self._members.get(step.archive, []):
                        self._made[step.folder / member.name] = self._made.get(member, member)
                elif step.kind == "relocatable" or step in programs:
                    self._link(call, step)
        return {name: self._made[link.output] for link, name in programs.items() if link.output in self._made}

    def _archive(self, step: ArchiveStep) -> None:
        members = [str(path) for member in step.members if (path := self._made.get(member, member)).exists()]
        target = self._made[step.output] if step.output in self._members else self._place(step.output)
        self._run([str(find_linker()), "ar", "rcs", str(target), *members], self.folder)
        self._members.setdefault(step.output, []).extend(step.members)
        self._made[step.output] = target

    def _link(self, call: ToolInvocation, step: LinkStep) -> None:
        sources = {one.source: one.output for one in steps_of(call) if isinstance(one, CompileStep)}
        target = self._place(step.output)
        words = [self._word(word, call.folder, step, sources) for word in _relink_words(call, step)]
        # The output comes first: behind an option without its value, such as a last `-L`, it would be that value.
        self._run([*shlex.split(call.program), "-o", str(target), *words], call.folder)
        self._made[step.output] = target

    def _word(self, word: str, folder: Path, link: LinkStep, sources: Mapping[str, Path]) -> str:
        """A word of a link, where it names a file that is made again: that file."""
        if word.startswith("-Wl,"):
            return ",".join([self._word(part, folder, link, sources) for part in word.split(",")])
        if word.startswith("-l"):
            found = (self._of(place / f"lib{word[2:]}.a") for place in link.library_folders)
            return next((str(path) for path in found if path is not None), word)
        path = self._of(sources.get(word) or (folder / word).resolve())
        return word if path is None else str(path)

    def _of(self, path: Path) -> Path | None:
        return self._made.get(original_archive(path, self._members))

    def _place(self, output: Path) -> Path:
        place = self.folder / f"{len(self._made):04d}" / output.name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def _run(self, command: Sequence[str], folder: Path) -> None:
        await_linker(Child(command, cwd=folder, env=zig_environment(self.cache_dir)), self.timeout_s)


def _relink_words(call: ToolInvocation, step: LinkStep) -> list[str]:
    """Words of a recorded link behind its program, see `link_words`."""
    own = len(tool_and_options(shlex.split(call.program))[1])  # which stand in front of the expanded ones again
    try:
        return link_words(expanded(call)[own:], through_compiler=call.tool != "ld")
    except ConfigError as error:
        raise CorpusError(f"{step.output.name} cannot be linked again: {error}") from error
