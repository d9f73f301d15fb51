"""From the steps of a build to its units and programs: which sources make which linked file, through which archives."""

import functools
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from mlgo.base.files import is_file
from mlgo.corpus.capture.bitcode import BitcodeUnit
from mlgo.corpus.capture.commands import ArchiveStep, CompileStep, ExtractStep, LinkStep, Step, expanded, steps_of
from mlgo.corpus.capture.invocations import RECORDS, ToolInvocation, read_invocations, tool_and_options
from mlgo.corpus.capture.origins import Moved, Origins, find_moved, place_of, real_place
from mlgo.errors import ConfigError, CorpusError
from mlgo.host.command_line import link_words
from mlgo.host.linker import await_linker
from mlgo.host.process import Child
from mlgo.host.rustc import library_of_rust
from mlgo.host.toolchain import find_linker, zig_environment

_SHARED = re.compile(r"\.(?:so(?:\.[\d.]+)?|dylib|dll)$")
_PROBES = ("CompilerId", "_CMakeLTOTest", "CMakeScratch", "CMakeTmp")
"""Beginnings of folders in which CMake tries a compiler, and leaves or copies what it made."""


_METADATA = re.compile(r"-[0-9a-f]{16}(?=\.|$)")
"""What cargo adds to names; it follows from the folder of the build."""


@dataclass(frozen=True)
class BuildUnit:
    """One compile of a build."""

    # Of the module: its source, relative to the build's root. Where a source is compiled more than once, the
    # object's name follows after `@`.
    name: str
    compile: CompileStep  # what was done
    object: Path  # where its object lies when the build has ended


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
    file: Path  # where it lies when the build has ended


@dataclass(frozen=True)
class Build:
    """Units and linked files of a build."""

    units: tuple[BuildUnit, ...]  # in the order of compiling
    programs: tuple[BuiltProgram, ...]  # in the order of linking
    left_out: Mapping[str, str] = field(default_factory=dict)  # why a linked file is not among them, by name
    modules: tuple[BitcodeUnit, ...] = ()  # bitcode that was there already
    notes: tuple[str, ...] = ()  # what a user should know of it, a line each
    moved: Moved = field(default_factory=dict)  # files that are no longer where they were made


@dataclass
class _Made:
    """What an object or an archive holds: numbers of compiles, in order."""

    numbers: Sequence[int] = ()
    is_archive: bool = False


def read_build(
    steps: Iterable[Step], root: Path, temporary: Sequence[Path] = (), moved: Moved = MappingProxyType({})
) -> Build:
    """Put the steps of a build, in the order of time, together; names are relative to its root.

    A file that is made again replaces what it was before, but what was linked with it keeps it. Names say ``tmp`` for
    ``temporary`` folders, those with random or machine-specific names, the longest first: so they are the same in every
    build.

    Args:
        moved: where files have got to that are no longer where a step made them, see `find_moved`.
    """
    real_root = Path(os.path.realpath(root))

    def name(path: Path) -> str:
        if path.suffix == ".rs" and not path.is_relative_to(root):  # of a registry
            package = next((folder for folder in path.parents if is_file(folder / "Cargo.toml")), path.parent)
            return as_text(path.relative_to(package.parent).as_posix())
        if not path.is_relative_to(root) and (real := real_place(path)).is_relative_to(real_root):
            path = root / real.relative_to(real_root)
        text = as_text((path.relative_to(root) if path.is_relative_to(root) else path).as_posix())
        for folder in temporary:
            text = text.replace(f"{folder}/", "tmp/")
        return text

    place = functools.partial(place_of, moved=moved)
    compiles: list[CompileStep] = []
    origins: Origins[_Made] = Origins()
    links: dict[Path, tuple[LinkStep, list[tuple[Path, _Made]]]] = {}
    for step in steps:

        def held(path: Path, contents: Mapping[Path, str] = step.contents) -> _Made:
            return origins.get(path, contents) or _Made()

        if isinstance(step, CompileStep):
            origins.put(step.output, _Made([len(compiles)]), step.contents)
            compiles.append(step)
        elif isinstance(step, ArchiveStep):
            before = held(step.output)
            added = dict.fromkeys(number for member in step.members for number in held(member).numbers)
            again = {place(compiles[number]) for number in added}
            kept = [n for n in before.numbers if before.is_archive and place(compiles[n]) not in again]
            origins.put(step.output, _Made([*kept, *added], is_archive=True), step.contents)
        elif isinstance(step, ExtractStep):
            for number in held(step.archive).numbers:
                origins.put(step.folder / place(compiles[number]).name, _Made([number]), {})
        elif step.kind == "relocatable":
            numbers = [number for path in step.inputs for number in held(path).numbers]
            origins.put(step.output, _Made(numbers), step.contents)
        else:
            links.pop(place(step), None)
            files = [*step.inputs, *_libraries(step, lambda path: held(path).is_archive)]
            links[place(step)] = step, [(path, held(path)) for path in files if path != step.output]
    last = {place(one): number for number, one in enumerate(compiles)}
    linked = {number for _, inputs in links.values() for _, made in inputs for number in made.numbers}
    wanted = [number for number, one in enumerate(compiles) if last[place(one)] == number or number in linked]
    names = _names([compiles[number] for number in wanted], name, place)
    by_number = dict(zip(wanted, names, strict=True))
    programs = [
        BuiltProgram(
            name(file) if link.crate is None else _METADATA.sub("", name(file)),
            link,
            tuple(
                LinkPart(tuple(by_number[n] for n in made.numbers), _kind(path, link, made))
                for path, made in inputs
                if made.numbers
            ),
            tuple([library_of_rust(path) or name(path) for path, made in inputs if not made.numbers]),
            file,
        )
        for file, (link, inputs) in links.items()
        if any(made.numbers for path, made in inputs if link.crate in (None, path)) and not link.problem
    ]
    left_out = {name(file): link.problem for file, (link, _) in links.items() if link.problem}
    units = tuple(BuildUnit(by_number[n], compiles[n], place(compiles[n])) for n in wanted)
    return Build(units, tuple(programs), left_out, moved=dict(moved))


def recorded_build(folder: Path, root: Path, temporary: Sequence[Path] = (), results: Sequence[Path] = ()) -> Build:
    """The build that wrappers have recorded in a folder, without what only tried the compiler; see `read_build`.

    Left out are files that are gone, and CMake's own tests.

    Args:
        results: further folders, besides the root, to which a build may have moved what it made.
    """
    steps = list(chain.from_iterable(map(steps_of, read_invocations(folder / RECORDS))))
    build = read_build(steps, root, temporary, find_moved(steps, root, *results))
    programs = tuple(one for one in build.programs if _is_product(one.link.output, one.file))
    linked = {name for one in programs for part in one.parts for name in part.units}
    merged = (one for one in steps if isinstance(one, LinkStep) and one.kind == "relocatable" and one.output.exists())
    inside = {path for one in merged for path in one.inputs}
    linked |= {one.name for one in build.units if one.compile.output in inside}
    units = tuple(one for one in build.units if one.name in linked or _is_product(one.compile.output, one.object))
    return replace(build, units=units, programs=programs)


def _is_product(output: Path, now: Path) -> bool:
    return is_file(now) and not any(part.startswith(_PROBES) for part in output.parts)


def as_text(name: str) -> str:
    r"""A name or message as tables hold it: bytes of a path that are no UTF-8 become ``\xNN``."""
    try:
        return os.fsencode(name).decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half a character of JSON
        return name.encode(errors="backslashreplace").decode()


def _libraries(link: LinkStep, is_archive: Callable[[Path], bool]) -> Iterator[Path]:
    """Archives of the build that ``-l`` found in the folders of a link."""
    for name in link.libraries:
        file = name[1:] if name.startswith(":") else f"lib{name}.a"
        found = (path for folder in link.library_folders if is_archive(path := folder / file))
        yield from islice(found, 1)


def _kind(path: Path, link: LinkStep, made: _Made) -> Literal["object", "archive"]:
    is_archive = made.is_archive and path not in link.whole
    return "archive" if is_archive and not is_shared(path.name) else "object"


def is_shared(name: str) -> bool:
    """Whether a file is a shared library by its name."""
    return _SHARED.search(name) is not None


def _names(
    compiles: Sequence[CompileStep], name: Callable[[Path], str], place: Callable[[CompileStep], Path]
) -> list[str]:
    sources = [name(Path(os.path.normpath(one.folder / one.source))) for one in compiles]
    counts = Counter(sources)
    names = [f"{s}@{name(place(one))}" if counts[s] > 1 else s for s, one in zip(sources, compiles, strict=True)]
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


@dataclass(frozen=True)
class _Again:
    """What is in the place of a file of the build."""

    file: Path | None = None  # None for the build's own
    members: tuple[Path, ...] = ()  # of an archive, as the build names them


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
    _made: Origins["_Again"] = field(default_factory=Origins)
    _num_made: int = 0

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
        linked: dict[str, Path] = {}
        for call in calls:
            for step in steps_of(call):
                if isinstance(step, CompileStep):
                    self._made.put(step.output, _Again(self.objects.get(names.get(step, ""))), step.contents)
                elif isinstance(step, ArchiveStep):
                    self._archive(step)
                elif isinstance(step, ExtractStep):
                    for member in self._again(step.archive, step).members:
                        self._made.put(step.folder / member.name, self._again(member, step), {})
                elif step.kind == "relocatable" or step in programs:
                    file = self._link(call, step)
                    linked |= {programs[step]: file} if step in programs else {}
        return linked

    def _again(self, path: Path, step: Step) -> "_Again":
        return self._made.get(path, step.contents) or _Again()

    def _archive(self, step: ArchiveStep) -> None:
        members = [path for member in step.members if (path := self._again(member, step).file or member).exists()]
        before = self._again(step.output, step)
        target = before.file if before.members and before.file else self._place(step.output)
        self._run([str(find_linker()), "ar", "rcs", str(target), *map(str, members)], self.folder)
        self._made.put(step.output, _Again(target, (*before.members, *step.members)), step.contents)

    def _link(self, call: ToolInvocation, step: LinkStep) -> Path:
        sources = {one.source: one.output for one in steps_of(call) if isinstance(one, CompileStep)}
        target = self._place(step.output)
        words = [self._word(word, call.folder, step, sources) for word in _relink_words(call, step)]
        # The output comes first: behind an option without its value, such as a last `-L`, it would be that value.
        self._run([*shlex.split(call.program), "-o", str(target), *words], call.folder)
        self._made.put(step.output, _Again(target), step.contents)
        return target

    def _word(self, word: str, folder: Path, link: LinkStep, sources: Mapping[str, Path]) -> str:
        """A word of a link, where it names a file that is made again: that file."""
        if word.startswith("-Wl,"):
            return ",".join([self._word(part, folder, link, sources) for part in word.split(",")])
        if word.startswith("-l"):
            found = (self._again(place / f"lib{word[2:]}.a", link).file for place in link.library_folders)
            return next((str(path) for path in found if path is not None), word)
        path = self._again(sources.get(word) or Path(os.path.normpath(folder / word)), link).file
        return word if path is None else str(path)

    def _place(self, output: Path) -> Path:
        self._num_made += 1
        place = self.folder / f"{self._num_made:04d}" / output.name
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
