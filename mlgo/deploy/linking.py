"""Programs that are optimized while they are linked, under a policy.

As one module: what ``mlgo cc --whole`` has made, bitcode before optimization, is merged, compiled under advice, and
linked. By ThinLTO: what ``mlgo cc --thin`` has made was advised before, and lld asks again for each module after its
imports. Objects and libraries of any kind may be linked with the bitcode. The compiler is asked how it would link, so
start files, libraries and options are its own. The link itself is lld's.
"""

import json
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.base.config import CompileConfig
from mlgo.base.files import MAX_TEXT_BYTES, read_input, write_atomically, write_bytes
from mlgo.base.scratch import scratch_directory
from mlgo.base.ships import Ships
from mlgo.corpus.link_time import (
    ONE_JOB,
    finish_merged,
    merging,
    pre_linked,
    pre_linking,
    take_merged,
    variants,
)
from mlgo.deploy.embedded import LinkInput, with_embedded
from mlgo.errors import CompilerExit, CompileTimeout, LinkError
from mlgo.host.command_line import by_option, by_part, for_zig
from mlgo.host.linker import await_linker, generation_options, relocation_of, section_sizes, why_unmerged
from mlgo.host.module_file import Generation
from mlgo.host.process import Child, without_folders
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain, find_linker
from mlgo.policy.policy import Policy

_PLACED = re.compile(
    r"-*(no-)?whole-archive|-*(push|pop)-state|-*(start|end)-lib|-B(static|dynamic)|-d[ny]|-*format\b.*"
)
"""Options that are about the files behind them. Files are moved to one place here."""
_SHOWN = re.compile(r"-[vtM]|-*(verbose|trace|cref|print-(map|[\w-]+-sections)|(reproduce|why-extract|time-trace)\b.*)")
"""Options by which a linker shows what it links, which are other files here."""

_MOST_SAID = 1 << 24
"""Bytes of what a compiler says; of each name in a version script a linker says that the stand-in has it not."""


class NothingToMerge(LinkError):
    """A link without bitcode."""


@dataclass(frozen=True)
class LinkCommand:
    """A link that the user asks for."""

    files: tuple[LinkInput, ...]  # in their order
    options: tuple[str, ...]  # all else, without the output
    output: Path  # the file to make

    @classmethod
    def read(cls, arguments: Sequence[str]) -> "LinkCommand":
        """Sort the arguments of a compiler that links; response files (``@FILE``) are opened."""
        files, options, output = [], [], "a.out"
        for words in by_option(_opened(arguments)):
            word = words[0]
            if word in ("-o", "--output"):
                output = words[1] if len(words) > 1 else output
            elif found := re.fullmatch(r"--output=(.+)|-o(?!bj)(.+)", word):
                output = found[1] or found[2]
            elif not word.startswith("-") and (file := LinkInput.read(Path(word))):
                files.append(file)
            else:
                options += words
        return cls(tuple(files), tuple(options), Path(output))

    def check(self) -> None:
        """Refuse what cannot be linked here.

        Raises:
            LinkError: an option depends on its place among the files, or shows them, or the output has no folder.
        """
        if not any(file.has_bitcode for file in self.files):
            raise NothingToMerge("there is no bitcode among the inputs; compile with mlgo cc --whole or --thin")
        for word in self.options:
            for option in word.removeprefix("-Wl,").split(","):
                if _PLACED.fullmatch(option):
                    raise LinkError(f"{option} depends on its place among the files")
                if _SHOWN.fullmatch(option):
                    raise LinkError(f"{option} shows what the compiler would link")
        if reason := why_unmerged(part for word in self.options for part in word.removeprefix("-Wl,").split(",")):
            raise LinkError(reason)
        if self.output.exists() and not self.output.is_file():
            raise NothingToMerge(f"{self.output} is no file")
        if not self.output.absolute().parent.is_dir():
            raise LinkError(f"there is no folder for {self.output}")

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Where the files are."""
        return tuple(file.path for file in self.files)

    @property
    def changed(self) -> list[str]:
        """Names of inputs whose bitcode does not count any more, see `LinkInput`."""
        return [str(file.path) for file in self.files if file.is_changed]

    @property
    def target(self) -> tuple[str, ...]:
        """Options that name a target."""
        named = (tuple(words) for words in by_option(self.options) if re.fullmatch("-target|--target=.*", words[0]))
        return next(named, ())

    def compiler(self, toolchain: Toolchain) -> Toolchain:
        """The compiler for that target, of which zig's name may end in a version of the C library."""
        named = "".join(self.target[-1:]).removeprefix("--target=")
        return replace(toolchain, target=re.sub(r"(\.\d+)+$", "", named)) if named else toolchain


@dataclass(frozen=True)
class LinkResult:
    """A finished link."""

    questions: int  # how often the policy was asked
    advised: int  # total bytes under advice, see `Ships.total`
    plain: int | None  # the same without advice; None if that was not linked

    @property
    def is_advised(self) -> bool:
        """Whether the file that was kept is the advised one."""
        return self.plain is None or self.advised <= self.plain


def link(
    wanted: LinkCommand,
    toolchain: Toolchain,
    language: str,
    policy: Policy | None,
    settings: CompileConfig,
    driver: Sequence[str],
    ships: Ships,
    *,
    guard: bool,
) -> LinkResult:
    """Link a program as one module, or by ThinLTO.

    Args:
        wanted: its output is written whole or not at all.
        toolchain: the compiler, asked how it links.
        language: ``c``, or ``c++`` for its library.
        policy: None for a program in a language that is left to the compiler.
        settings: level of the compile, deadline of each step.
        driver: command of the policy's driver, which asks for lld by ThinLTO; empty for one module.
        ships: which bytes count; the words of ``wanted`` say the rest.
        guard: link without advice as well, and keep the smaller file.

    Raises:
        CompileError: nothing to merge, a step fails, or takes too long.
    """
    with scratch_directory() as folder:
        steps = _LinkSteps(wanted, toolchain, language, settings, folder)
        questions, advised, plain = steps.thin(driver, guard) if driver else steps.whole(policy, ships, guard)
        sizes = [ships.total(section_sizes(file.read_bytes())) for file in (advised, plain) if file]
        result = LinkResult(questions, sizes[0], sizes[1] if plain else None)
        smaller = advised if plain is None or result.is_advised else plain
        write_reports(steps.reports, smaller, wanted.output, wanted.inputs)
        write_atomically(wanted.output, lambda path: shutil.copy(smaller, path))
        return result


class _LinkSteps:
    """The steps of one link, in a folder."""

    def __init__(
        self, wanted: LinkCommand, toolchain: Toolchain, language: str, settings: CompileConfig, folder: Path
    ) -> None:
        self._wanted, self._folder, self._compiler = wanted, folder, wanted.compiler(toolchain)
        self._settings, self._timeout_s = settings, settings.compile_timeout_s
        self._options, self.reports = without_reports(wanted.options)
        self._output = str(folder / "asked")  # in the words below, in place of what a link writes
        self._before, self._after = self._asked(toolchain, language)

    def _asked(self, toolchain: Toolchain, language: str) -> tuple[list[str], list[str]]:
        """The linker's words before and after the object when the compiler links a program of one object."""
        stand_in, source = (self._folder / name for name in ("stand-in.o", "stand-in.c"))
        source.write_text("int main(void) { return 0; }\n")
        self._said([*toolchain.driver("c"), *self._wanted.target, "-c", str(source), "-o", str(stand_in)])
        verbose = "--verbose" if toolchain.is_zig else "-###"
        # The link itself may fail: it says first how it links, and of one object not every option makes sense.
        asking = [*toolchain.driver(language), verbose, str(stand_in), "-o", self._output]
        options, of_linker = for_zig(self._options) if toolchain.is_zig else self._options, list[str]()
        stderr = self._said([*asking, *options])
        if "unsupported linker" in stderr:  # of which zig's driver takes few, and lld itself all
            options, of_linker = _apart(options)
            stderr = self._said([*asking, *options])
        for line in reversed(stderr.splitlines()):
            words = shlex.split(line) if str(stand_in) in line else []
            if str(stand_in) in words and self._output in words:
                place = words.index(str(stand_in))
                return words[1:place], [*words[place + 1 :], *of_linker]
        error = next((f": {without_folders(line)}" for line in stderr.splitlines() if "error:" in line), "")
        raise LinkError(f"the compiler does not tell how it links{error}")

    def whole(self, policy: Policy | None, ships: Ships, guard: bool) -> tuple[int, Path, Path | None]:
        """Questions, the file linked under advice, and the one without."""
        merged, settings = self._folder / "merged.bc", self._settings
        inputs, options = self._wanted.inputs, merging(settings.optimization)
        together = self._lld("together", inputs, pre_linking(settings.optimization), embedded=True)
        again = self._with_object(pre_linked(together), options)
        take_merged(self._lld("merged", inputs, options, embedded=True), again, merged)
        placed = ships.model_copy(update={"relocation": relocation_of(self._before + self._after)})
        models = [word for word in self._options if word.startswith("-mcmodel=")]
        generation = Generation(tuple(generation_options(placed, [models])))
        linked = dict[Path, Path]()

        def link_variant(compiled: Path) -> bytes:
            linked[compiled] = self._with_object(compiled)
            return read_input(linked[compiled])

        def total(file: Path) -> int:
            return ships.total(section_sizes(read_input(file)))

        chosen = finish_merged(self._compiler, merged, settings, generation, link_variant)
        plain = linked[chosen.with_suffix(".o")]
        if guard or policy is None:  # full link-time optimization has other passes, and now and then a smaller file
            both = plain, self._with_object(pre_linked(together))
            plain = min(both, key=total)
        if policy is None:
            return 0, plain, None
        found = [self._advised(policy, module) for module in variants(merged)]
        questions, advised = min(found, key=lambda one: total(one[1]))
        return questions, advised, plain if guard else None

    def _advised(self, policy: Policy, module: Path) -> tuple[int, Path]:
        """Questions of a compile under the policy, and the linked file."""
        path, task = module.with_suffix(".advised.o"), get_task(policy.task)
        asked = compile_under_advice(self._compiler, task, module, policy, self._settings, object_path=path)
        return asked.num_questions, self._with_object(path)

    def thin(self, driver: Sequence[str], guard: bool) -> tuple[int, Path, Path | None]:
        """The same by ThinLTO."""
        log = self._folder / "log"
        advised = self._lld("advised", self._wanted.inputs, ONE_JOB, [*driver, "--log", str(log), "--"])
        outcome = json.loads(log.read_text())
        if outcome["outcome"] != "advised":
            raise CompilerExit(f"lld was not advised: {outcome['reason']}")
        return outcome["questions"], advised, self._lld("plain", self._wanted.inputs, ONE_JOB) if guard else None

    def _with_object(self, compiled: Path, options: Sequence[str] = ()) -> Path:
        """Link with an object, or one module, in place of all bitcode."""
        rest = [file.path for file in self._wanted.files if file.is_archive or not file.has_bitcode]
        return self._lld(compiled.stem, [compiled, *rest], options)

    def _lld(
        self,
        name: str,
        inputs: Sequence[Path],
        options: Sequence[str] = (),
        start: Sequence[str] = (),
        *,
        embedded: bool = False,
    ) -> Path:
        """Link to a file of that name; ``start`` begins a command that advises the rest.

        With ``embedded``, what objects carry stands in their place.
        """
        output = self._folder / name
        words = [*self._before, *options, *map(str, inputs), *self._after, *report_options(self.reports, output)]
        words[words.index(self._output)] = str(output)
        if embedded:
            words = with_embedded(words, self._wanted.files, self._folder)
        await_linker(Child([*start, str(find_linker()), "ld.lld", *words]), self._timeout_s)
        return output

    def _said(self, command: list[str]) -> str:
        """Output of a command on stderr, however it ends."""
        run = Child(command, tail_bytes=_MOST_SAID).finish(self._timeout_s)
        if run.returncode is None:
            raise CompileTimeout(f"{Path(command[0]).name} did not end within {self._timeout_s:g} s")
        return run.stderr


def _apart(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of a compiler that links, and those among them that are its linker's."""
    own, of_linker = list[str](), list[str]()
    for words in by_part(options):
        if words[0] in ("-Xlinker", "-z"):
            of_linker += words if words[0] == "-z" else words[1:]
        else:
            own += words
    return own, of_linker


_MAX_RESPONSES = 256


def _opened(arguments: Sequence[str]) -> list[str]:
    """Arguments with those of response files in their place; LinkError for one that names itself, or cannot be read."""
    words, rest, num_opened = [], deque(arguments), 0
    while rest:
        word = rest.popleft()
        if not word.startswith("@") or not Path(word[1:]).is_file():
            words.append(word)
            continue
        try:
            if (num_opened := num_opened + 1) > _MAX_RESPONSES:
                raise ValueError(f"more than {_MAX_RESPONSES} response files in one another")
            text = read_input(Path(word[1:]), MAX_TEXT_BYTES).decode(errors="surrogateescape")
            rest.extendleft(reversed(shlex.split(text)))
        except (OSError, ValueError) as error:
            raise LinkError(f"{word} cannot be read: {error}") from error
    return words


# Reports: a map, and a dependency file for make. Links here make files in a temporary folder; reports are about the one
# that is kept, and name what the user names.

_REPORT = re.compile(r"-{1,2}(Map|dependency-file)(?:=(.*))?")


def without_reports(options: Sequence[str]) -> tuple[list[str], dict[str, Path]]:
    """A compiler's options without those for reports, and the files of these by ``Map`` and ``dependency-file``."""
    rest: list[str] = []
    files: dict[str, Path] = {}
    words_of = by_part(options)
    for words in words_of:
        found = _REPORT.fullmatch(words[-1]) if words[0] == "-Xlinker" else None
        if found is None:
            rest += words
        else:
            files[found[1]] = Path(found[2] or next(words_of, [""])[-1])
    return rest, files


def report_options(names: Iterable[str], output: Path) -> list[str]:
    """Words of lld for reports beside a file in the temporary folder."""
    return [f"--{name}={output}.{name}" for name in names]


def write_reports(files: Mapping[str, Path], kept: Path, output: Path, inputs: Sequence[Path]) -> None:
    """Write the reports of the link of ``kept``, which becomes ``output``, of these inputs."""
    for name, path in files.items():
        text = os.fsdecode(read_input(Path(f"{kept}.{name}")))
        said = text.replace(f"{kept.parent}/", "") if name == "Map" else _dependencies(text, kept, output, inputs)
        write_bytes(path, os.fsencode(said))


def _dependencies(text: str, kept: Path, output: Path, inputs: Sequence[Path]) -> str:
    """A dependency file as lld has it: a rule, and an empty one for each file that it names."""
    named = re.findall(r"^ (.*?)(?: \\)?$", text.partition("\n\n")[0], re.MULTILINE)
    others = [name for name in named if not name.startswith(f"{_quoted(kept.parent)}/")]
    names = list(dict.fromkeys([*map(_quoted, inputs), *others]))
    return " \\\n ".join([f"{_quoted(output)}:", *names]) + "\n" + "".join(f"\n{name}:\n" for name in names)


def _quoted(path: Path) -> str:
    return re.sub(r"([ #])", r"\\\1", str(path)).replace("$", "$$")
