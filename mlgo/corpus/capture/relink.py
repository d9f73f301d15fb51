"""A build's archives and links made again of other objects, in another folder."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlgo.corpus.capture.builds import Build, original_archive
from mlgo.corpus.capture.commands import ArchiveStep, CompileStep, ExtractStep, LinkStep, expanded, steps_of
from mlgo.corpus.capture.invocations import ToolInvocation, tool_and_options
from mlgo.host.linker import run_linker
from mlgo.host.toolchain import find_linker, zig_environment


@dataclass
class Relink:
    """Archives and links of a build, with other objects in the place of its own.

    Objects that nobody gives are those of the build, as far as they are still there. Nothing of the build changes.
    """

    objects: Mapping[str, Path]  # other objects, by name of the unit
    folder: Path  # for the files
    cache_dir: Path  # folder for zig's caches
    timeout_s: float  # deadline of each link
    _made: dict[Path, Path] = field(default_factory=dict)  # by path in the build
    _archives: set[Path] = field(default_factory=set)
    _members: dict[Path, list[Path]] = field(default_factory=dict)

    def run(self, calls: Iterable[ToolInvocation], build: Build) -> dict[str, Path]:
        """Link the programs of a build.

        Raises:
            LinkError: a tool of the build refuses.
        """
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
        target = self._made[step.output] if step.output in self._archives else self._place(step.output)
        self._run([str(find_linker()), "ar", "rcs", str(target), *members], self.folder)
        self._archives.add(step.output)
        self._members.setdefault(step.output, []).extend(step.members)
        self._made[step.output] = target

    def _link(self, call: ToolInvocation, step: LinkStep) -> None:
        sources = {one.source: one.output for one in steps_of(call) if isinstance(one, CompileStep)}
        target = self._place(step.output)
        program = shlex.split(call.program)
        own = len(tool_and_options(program)[1])  # which stand in front of the expanded ones again
        words = [self._word(word, call.folder, step, sources) for word in expanded(call)[own:]]
        self._run([*program, *_with_output(words, target)], call.folder)
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
        return self._made.get(original_archive(path, self._archives))

    def _place(self, output: Path) -> Path:
        place = self.folder / f"{len(self._made):04d}" / output.name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def _run(self, command: Sequence[str], folder: Path) -> None:
        run_linker(command, self.timeout_s, cwd=folder, env=zig_environment(self.cache_dir))


def _with_output(words: Sequence[str], target: Path) -> list[str]:
    """A link's words with another output."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-o":
            next(rest, None)
        elif not (word.startswith("-o") and len(word) > len("-o")):
            found.append(word)
    return [*found, "-o", str(target)]
