"""Modules as link-time optimization has them: whole programs, and modules after ThinLTO's import.

Whole programs: the linker knows what nobody outside of a program uses, makes it internal, and drops copies that do not
count. lld writes the merged module down before it is optimized (``--save-temps=internalize``,
``llvm/lib/LTO/LTOBackend.cpp``). Compiled by the ordinary pipeline, it is the program. A part of a program is merged in
the same way: only the part is bitcode then, and objects stand for the rest, so the linker sees what it needs.

ThinLTO compiles twice. The pre-link compile inlines within a source. With ``-ffat-lto-objects`` it writes an object
whose code is that of an ordinary compile, byte for byte, and the bitcode for the link. So its decisions are those on
the module of form ``objects``. Then the thin link says what each module imports, and the back ends compile the modules
anew, each with its own index.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.config import CompileConfig
from mlgo.base.files import read_input
from mlgo.base.names import language_together
from mlgo.base.scratch import scratch_directory
from mlgo.base.ships import Form
from mlgo.base.threads import in_threads
from mlgo.corpus.build import columns_of, columns_without
from mlgo.errors import CompileError, CompilerExit, CompileTimeout, ConfigError, CorpusError, LinkError
from mlgo.host.frontend import FrontEnd
from mlgo.host.linker import (
    MERGED,
    NOTHING_LEFT,
    LinkedFile,
    await_linker,
    differing_options,
    generation_options,
    link_arguments,
    link_command,
    link_file,
    needed_symbols,
    section_sizes,
    ships_of,
    why_unmerged,
)
from mlgo.host.module_file import (
    BITCODE,
    MOST_BYTES,
    Generation,
    RunnableProgram,
    bitcode_of,
    generation_of,
    module_file,
)
from mlgo.host.process import Child, without_folders
from mlgo.host.program import ProgramRunner
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import Toolchain
from mlgo.objects.elf import global_symbols, read_sections, section_names, text_size

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tools:
    """Compiler, linker and limits of merges and imports."""

    front_end: FrontEnd  # compiles, and reads what came out
    linker: Path  # what `toolchain.find_linker` gives
    max_instructions: int  # of a merged module, before optimization
    num_threads: int  # compiles and links at a time

    @property
    def timeout_s(self) -> float:
        """Deadline of one link."""
        return self.front_end.settings.compile_timeout_s


@dataclass(frozen=True)
class Sources:
    """A project's modules as files."""

    rows: Mapping[str, Row]  # of `artifacts.PROJECT`, by name of the module; those with bitcode
    paths: Mapping[str, Path]  # file of each


@contextmanager
def sources_of(rows: Sequence[Row]) -> Iterator[Sources]:
    """Write a project's modules to files, for a while."""
    with scratch_directory() as folder:
        sources = {row["module"]: row for row in rows if not row["skip_reason"]}
        paths = {name: folder / f"{number}.bc" for number, name in enumerate(sources)}
        for name, path in paths.items():
            # A linker takes a text for a script, which names further files.
            if not bitcode_of(sources[name]["bitcode"]).startswith(BITCODE):
                raise CorpusError(f"{sources[name]['project']}: {name} is no bitcode; capture the project again")
            path.write_bytes(sources[name]["bitcode"])
        yield Sources(sources, paths)


def remake_programs(
    rows: Sequence[Row], programs: Sequence[Row], tools: Tools, make: Callable[[LinkedFile], list[Row]]
) -> tuple[list[Row], list[Row]]:
    """Both tables, with the modules of each linked file made anew; a file of which one cannot be made has no parts.

    Of the old modules those remain, without code, that were none before or that no linked file holds.
    """

    def one(program: Row) -> tuple[Row, list[Row]]:
        file = LinkedFile.of_row(program)
        try:
            made = make(file)
        except CompileError as error:
            empty = {"project": file.project, "module": file.name, "language": "c", "licence": ""}
            made = [empty | columns_without(f"{error.kind}: {error}")]
        names = [] if any(row["skip_reason"] for row in made) else [row["module"] for row in made]
        return program | {"parts": [{"kind": "object", "modules": [name]} for name in names]}, made

    done = list(in_threads(one, programs, tools.num_threads))
    linked = {name for program in programs for part in program["parts"] for name in part["modules"]}
    left = [
        row if row["skip_reason"] else row | columns_without("unlinked: no linked file that was taken holds it")
        for row in rows
        if row["skip_reason"] or row["module"] not in linked
    ]
    modules = left + [row for _, made in done for row in made]
    return sorted(modules, key=lambda row: str(row["module"])), [program for program, _ in done]


_NO_CODE = ("--lto-emit-llvm", "--save-temps=internalize", "--save-temps=opt")


def merging(level: str) -> list[str]:
    """Options of a link that writes down the merged module twice: as it is, and simplified.

    The passes are those that full link-time optimization runs on each module before it merges them, here on the merged
    one. They inline no more than what costs less than its last call: the threshold is the bonus of that in
    ``llvm/include/llvm/Analysis/InlineCost.h``.
    """
    return [f"--lto-newpm-passes=lto-pre-link<{level[1:]}>", "-mllvm", "-inline-threshold=-15000", *_NO_CODE]


def pre_linking(level: str) -> list[str]:
    """Options of a link that writes down the modules together, inlined as each of them is before a link.

    All that other modules see stays, so that another link, with `merging`, can merge what comes out.
    """
    return [f"--lto-newpm-passes=lto-pre-link<{level[1:]}>", "-mllvm", "-enable-lto-internalization=false", *_NO_CODE]


_LEVELS = (("-O0", "-Xclang", "-disable-llvm-passes"), ("-O0",))
"""Without any pass an object has exactly the symbols of its bitcode. Coroutines need some."""


def merge(file: LinkedFile, paths: Mapping[str, Path], output: Path, tools: "Tools") -> frozenset[str]:
    """Merge what is bitcode among the modules of a linked file, see `variants`.

    Returns the names of the modules that the link takes: all but members of archives that nothing needs.
    """
    settings, natives = tools.front_end.settings, [name for name in file.modules if paths[name].suffix != ".bc"]
    with scratch_directory() as folder:

        def link(name: str, of: LinkedFile, objects: Mapping[str, Path], options: Sequence[str]) -> Path:
            arguments = ["--gc-sections", *options, "--trace", *link_arguments(of, objects, folder, settings.ships)]
            linking = Child(link_command(tools.linker, folder / name, arguments), stdout=folder / f"{name}.trace")
            await_linker(linking, tools.timeout_s)
            return folder / name

        merged = link("merged", file, paths, merging(settings.optimization))
        together = pre_linked(link("together", file, paths, pre_linking(settings.optimization)))
        rest = replace(file, parts=tuple(("object", (name,)) for name in (MERGED, *natives)))
        again = link("again", rest, {**paths, MERGED: together}, merging(settings.optimization))
        taken = set((folder / "merged.trace").read_text(errors="surrogateescape").splitlines())
        take_merged(merged, again, output)
    return frozenset(name for name in file.modules if str(paths[name]) in taken)


def pre_linked(linked: Path) -> Path:
    """What a link with `pre_linking` has written next to its output."""
    return linked.with_name(f"{linked.name}.0.4.opt.bc")


def take_merged(merged: Path, again: Path, output: Path) -> None:
    """Move what links with `merging` have written next to their outputs, of all modules and of what is pre-linked."""
    written = (merged, "2.internalize"), (merged, "4.opt"), (again, "2.internalize")
    try:
        for (linked, step), variant in zip(written, variants(output), strict=True):
            linked.with_name(f"{linked.name}.0.{step}.bc").replace(variant)
    except FileNotFoundError:
        raise LinkError(NOTHING_LEFT) from None


def variants(merged: Path) -> list[Path]:
    """Files of a merged module: before any optimization, simplified, and of modules that were inlined separately."""
    return [merged, *(merged.with_suffix(f".{name}.bc") for name in ("simplified", "inlined"))]


_TOLERANCE = 1.0005


def finish_merged(
    toolchain: Toolchain,
    merged: Path,
    settings: CompileConfig,
    generation: Generation,
    link: Callable[[Path], bytes] | None = None,
) -> Path:
    """Choose the variant of a merged module that full link-time optimization makes no smaller; all get what links add.

    It is the first, so the one that asks the most, of whose linked file neither total nor code is more than 0.05 %
    above the least of all. Its object without advice stands beside it.

    Args:
        generation: what the link wants of the module's compile.
        link: the linked file of an object; None where the module itself says how it is linked.
    """
    sizes = []
    for module in variants(merged):
        module.write_bytes(module_file(read_input(module), generation))
        result = compile_plain(toolchain, module, settings, object_path=module.with_suffix(".o"))
        if link is None:
            sizes.append((result.score("linked_bytes"), result.score("linked_code")))
        else:
            found = section_sizes(link(module.with_suffix(".o")))
            sizes.append((settings.ships.total(found), found["text"]))
    least = [min(some) for some in zip(*sizes, strict=True)]
    fits = [all(size <= _TOLERANCE * low for size, low in zip(one, least, strict=True)) for one in sizes]
    return variants(merged)[fits.index(True) if any(fits) else sizes.index(min(sizes))]


def stand_in(toolchain: Toolchain, module: Path, output: Path, settings: CompileConfig) -> None:
    """Compile bitcode, without optimizing it, to an object with the same symbols."""
    for level in _LEVELS:
        command = [*toolchain.back_end, *level, "-x", "ir", str(module), "-c", "-o", str(output)]
        compiler = Child(command, max_memory_bytes=int(settings.max_memory_gb * 1e9))
        run = compiler.finish(settings.compile_timeout_s)
        if run.returncode is None:
            raise CompileTimeout(f"no end within {settings.compile_timeout_s:g} s")
        if run.returncode == 0:
            return
    raise CompilerExit(without_folders(f"the compiler ended with status {run.returncode}: {run.stderr[-300:]}"))


def full_lto_asks(linker: Path, modules: Sequence[Path], folder: Path, timeout_s: float) -> bool:
    """Whether the linker asks over the interactive channel while it optimizes a whole program.

    The link names a channel that does not exist, which fails only if an advisor opens it.
    """
    arguments = ["-shared", *map(str, modules)]
    await_linker(Child(link_command(linker, folder / "linked", arguments)), timeout_s)
    channel = ("-mllvm", "-enable-ml-inliner=release", "-mllvm", f"-inliner-interactive-channel-base={folder}/none")
    try:
        await_linker(Child(link_command(linker, folder / "linked", [*channel, *arguments])), timeout_s)
    except LinkError:
        return True
    return False


def partition_modules(
    names: Sequence[frozenset[bytes]], bodies: Sequence[Mapping[int, int]], limit: int
) -> list[list[int]]:
    """Merge modules to groups, greedily: always the two that share the most names and are small enough together."""
    shared = _shared(names)
    groups: dict[int, list[int]] = {number: [number] for number in range(len(names))}
    lengths = {number: dict(of) for number, of in enumerate(bodies)}
    while shared.size:
        first, second = np.unravel_index(np.argmax(shared), shared.shape)
        if not shared[first, second]:
            break
        one, other = sorted((int(first), int(second)))
        together = lengths[one] | lengths[other]
        if sum(together.values()) > limit:
            shared[one, other] = shared[other, one] = 0
            continue
        shared[one] += shared[other]
        shared[one, one] = shared[one, other] = 0
        shared[:, one] = shared[one]
        shared[other] = shared[:, other] = 0
        groups[one] += groups.pop(other)
        lengths[one] = together
        del lengths[other]
    return [sorted(members) for _, members in sorted(groups.items())]


def _shared(names: Sequence[frozenset[bytes]]) -> np.ndarray:
    """Number of names that two modules share, int64 [num_modules, num_modules], 0 on the diagonal."""
    modules: dict[bytes, list[int]] = {}
    for module, mentioned in enumerate(names):
        for name in mentioned:
            modules.setdefault(name, []).append(module)
    shared = np.zeros((len(names), len(names)), np.int64)
    for these in modules.values():
        if len(these) > 1:
            shared[np.ix_(these, these)] += 1
    np.fill_diagonal(shared, 0)
    return shared


_EXCEPTION_MODELS = ("-fsjlj-exceptions", "-fseh-exceptions", "-fdwarf-exceptions", "-fwasm-exceptions")
_RUNS_AT_START = (b".init_array", b".ctors", b".preinit_array")


def whole_programs(rows: Sequence[Row], programs: Sequence[Row], tools: Tools) -> tuple[list[Row], list[Row]]:
    """Both tables with merged modules, named after their linked files; groups are counted after ``#``."""
    with sources_of(rows) as sources, ThreadPoolExecutor(tools.num_threads) as pool:
        placed = [_placed(program, sources) for program in programs]
        return remake_programs(rows, placed, tools, lambda file: _merged_rows(file, sources, tools, pool))


def _placed(program: Row, sources: Sources) -> Row:
    """The row of a linked file whose options say where its code may lie, as its modules do."""
    file = LinkedFile.of_row(program)
    ships = ships_of(
        file, [generation_of(sources.paths[name]).options for name in file.modules if name in sources.paths]
    )
    word = {"pie": ["-pie"], "fixed": ["-no-pie"]}.get(ships.relocation or "", [])
    return program | {"options": [*program["options"], *word]}


def _merged_rows(file: LinkedFile, sources: Sources, tools: Tools, pool: ThreadPoolExecutor) -> list[Row]:
    toolchain, settings = tools.front_end.toolchain, tools.front_end.settings
    own = [generation_of(sources.paths[name]).options for name in file.modules]
    exceptions = [one for one in differing_options(own) if one in _EXCEPTION_MODELS]
    if reason := why_unmerged(file.options):
        raise LinkError(reason)
    if exceptions:
        raise LinkError(f"only some sources have {' '.join(exceptions)}; one module has one kind of exceptions")
    with scratch_directory() as folder:
        taken = merge(file, sources.paths, folder / "all.bc", tools)
        names = [name for name in file.modules if name in taken]
        rows = [sources.rows[name] for name in names]
        lengths = [dict(zip(row["function_hashes"], row["function_sizes"], strict=True)) for row in rows]
        if sum({body: length for of in lengths for body, length in of.items()}.values()) <= tools.max_instructions:
            return [_merged_row(file.name, names, sources, tools, folder / "all.bc", file.only_part())]
        objects = {name: folder / f"{number}.o" for number, name in enumerate(names)}
        list(pool.map(lambda name: stand_in(toolchain, sources.paths[name], objects[name], settings), names))
        symbols = [frozenset.union(*global_symbols(objects[name].read_bytes())) for name in names]
        groups = [
            [names[one] for one in group] for group in partition_modules(symbols, lengths, tools.max_instructions)
        ]
        linked = replace(file, parts=tuple(("object", (name,)) for name in names))

        def merged(number: int) -> Row:
            bitcode = folder / f"group{number}.bc"
            paths = objects | {name: sources.paths[name] for name in groups[number]}
            merge(linked, paths, bitcode, tools)
            link = file.only_part(is_group=True)
            return _merged_row(f"{file.name}#{number}", groups[number], sources, tools, bitcode, link)

        return list(pool.map(merged, range(len(groups))))


def _check_left(bitcode: Path, tools: Tools) -> None:
    """Refuse a merged module that optimization leaves empty: all is internal, and nothing runs at start."""
    symbols = bitcode.with_suffix(".o")
    stand_in(tools.front_end.toolchain, bitcode, symbols, tools.front_end.settings)
    data = symbols.read_bytes()
    sections = read_sections(data)
    names = section_names(data, sections, sections)
    if not global_symbols(data)[0] and not any(name.startswith(_RUNS_AT_START) for name in names):
        raise LinkError(NOTHING_LEFT)


def _merged_row(
    name: str, members: Sequence[str], sources: Sources, tools: Tools, bitcode: Path, link: LinkedFile
) -> Row:
    """The row of a merged module. Its code is generated as the link wants it, with what all members have in common."""
    first = sources.rows[members[0]]
    languages = {sources.rows[member]["language"] for member in members}
    row = {**first, "module": name, "language": language_together(languages)}
    own, front_end = [generation_of(sources.paths[member]) for member in members], tools.front_end
    profile = own[0].profile if all(one.profile == own[0].profile for one in own) else None
    compiled = [one.options for one in own]
    try:
        ships = front_end.settings.ships.over(ships_of(link, compiled, "whole"))
    except ConfigError as error:
        raise LinkError(str(error)) from None
    generation = Generation(tuple(generation_options(ships, compiled)), profile=profile, link=link)
    try:
        _check_left(bitcode, tools)
        row |= columns_of(front_end, bitcode)
        if front_end.task is not None and front_end.task.in_code_generation:  # which is optimized already
            return row | {"bitcode": module_file(row["bitcode"], generation)}
        chosen = finish_merged(front_end.toolchain, bitcode, front_end.settings, generation)
        others = [bitcode_of(read_input(one)) for one in variants(bitcode) if one != chosen]
    except CompileError as error:
        return row | columns_without(f"{error.kind}: {error}")
    if differing := [one for one in differing_options(compiled) if one not in generation.options]:
        _log.warning("%s: compiled without %s, which only some of its sources have", name, " ".join(differing))
    fit = sum(map(len, others)) < MOST_BYTES // 2
    generation = replace(generation, variants=tuple(others) if fit else ())
    return row | {"bitcode": module_file(bitcode_of(read_input(chosen)), generation)}


@dataclass(frozen=True)
class RunCheck:
    """A run of a project's program, and what it must print."""

    runner: ProgramRunner  # links, runs, counts
    stdout: bytes  # what the program must print
    max_growth: float  # text that a compile of it may have, as a multiple of the text under the heuristic


def runnable_program(
    rows: Sequence[Row], programs: Sequence[Row], tools: Tools, running: RunCheck
) -> tuple[list[Row], list[Row]]:
    """Both tables with all sources merged to one module that is a program, and runs under the heuristic.

    The module's file holds what it prints and its bound, see mlgo/host/module_file.py.
    """
    executable = [{**program, "kind": "program", "program": program["project"], "options": []} for program in programs]
    merged, linked = whole_programs(rows, executable, replace(tools, max_instructions=sys.maxsize))
    named = {program["program"] for program in linked}
    return [_checked(row, tools, running) if row["module"] in named else row for row in merged], linked


def _checked(row: Row, tools: Tools, running: RunCheck) -> Row:
    """The row of a merged module, with what belongs to its program."""
    if row["skip_reason"]:
        raise CorpusError(f"{row['project']} is no program: {row['skip_reason']}")
    with scratch_directory() as folder:
        module, compiled = folder / f"{row['project']}.bc", folder / f"{row['project']}.o"
        module.write_bytes(row["bitcode"])
        try:
            compile_plain(tools.front_end.toolchain, module, tools.front_end.settings, object_path=compiled)
            text = text_size(read_sections(compiled.read_bytes()))
            program = RunnableProgram(running.stdout, int(running.max_growth * text))
            running.runner.count(program, compiled)
        except CompileError as error:
            raise CorpusError(f"{row['project']} is no program that runs: {error.kind}: {error}") from error
        own = generation_of(module)
    return row | {"bitcode": module_file(bitcode_of(row["bitcode"]), replace(own, program=program, variants=()))}


FAT_OBJECT, FULL = ("-flto=thin", "-ffat-lto-objects"), ("-flto=full", "-ffat-lto-objects")
"""Options of a pre-link compile."""
USE_BITCODE = "--fat-lto-objects"
"""Option of a link that takes what such a compile has left for it."""
ONE_JOB = ("--thinlto-jobs=1",)
"""Option of a link whose back ends run one after another: an advisor has one channel."""


def imported_modules(rows: Sequence[Row], programs: Sequence[Row], tools: Tools) -> tuple[list[Row], list[Row]]:
    """Replace the modules of each linked file by those that its back ends compile."""
    task = tools.front_end.task
    if task is not None and task.in_code_generation:
        raise ConfigError(
            f"compile.ships: form=thin holds modules before optimization; task {task.name} needs them after it"
        )
    with sources_of(rows) as sources, ThreadPoolExecutor(tools.num_threads) as pool:
        objects = _objects(sources, fat_module, tools, pool)
        return remake_programs(rows, programs, tools, lambda file: _imported_rows(file, sources, objects, tools))


def _objects(
    sources: Sources, made_of: Callable[[Path], bytes], tools: Tools, pool: ThreadPoolExecutor
) -> dict[str, Path]:
    """Objects under the heuristic of what modules are ``made_of``; a module that does not compile has none."""
    front_end = tools.front_end

    def compile_one(name: str) -> Path:
        output = sources.paths[name].with_suffix(".o")
        with scratch_directory() as folder, suppress(CompileError):  # the link reports that it is missing
            (folder / "module.bc").write_bytes(made_of(sources.paths[name]))
            compile_plain(front_end.toolchain, folder / "module.bc", front_end.settings, object_path=output)
        return output

    return dict(zip(sources.paths, pool.map(compile_one, sources.paths), strict=True))


def fat_module(module: Path, lto: Sequence[str] = FAT_OBJECT) -> bytes:
    """A module whose compile is the pre-link compile of ThinLTO, or of full link-time optimization (`FULL`)."""
    own = generation_of(module)
    return module_file(bitcode_of(module.read_bytes()), Generation((*own.options, *lto), profile=own.profile))


def back_end_module(imported: bytes, index: Path, source: Path) -> bytes:
    """A module whose compile is one of ThinLTO's back ends, with the options of the ``source`` before the import."""
    own = generation_of(source)
    return module_file(imported, Generation(own.options, index.read_bytes(), own.profile))


def thin_link(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], folder: Path, timeout_s: float
) -> dict[str, tuple[Path, Path]]:
    """Bitcode after the import and its index, by module in the order of linking; members nobody needs are missing."""
    # The index holds the names of objects as the link has them. With numbers it is the same in every folder.
    paths = {name: Path(f"{number}.o") for number, name in enumerate(file.modules)}
    for name, path in paths.items():
        os.link(objects[name], folder / path)
    options = ["--gc-sections", USE_BITCODE, "--thinlto-emit-index-files", *ONE_JOB]
    temporary = ["--lto-O1", "--lto-emit-llvm", "--save-temps=import"]  # at level 0 nothing is imported
    arguments = [*options, *temporary, *link_arguments(file, paths, folder)]
    await_linker(Child(link_command(linker, folder / "linked", arguments), cwd=folder), timeout_s)
    found = {
        name: (folder / f"{path}.3.import.bc", folder / f"{path.stem}.o.thinlto.bc") for name, path in paths.items()
    }
    return {name: both for name, both in found.items() if both[0].exists()}


def _imported_rows(file: LinkedFile, sources: Sources, objects: Mapping[str, Path], tools: Tools) -> list[Row]:
    made = []
    with scratch_directory() as folder:
        for name, (bitcode, index) in thin_link(tools.linker, file, objects, folder, tools.timeout_s).items():
            row = {**sources.rows[name], "module": f"{file.name}:{name}"}
            try:
                columns = columns_of(tools.front_end, bitcode)
                columns["bitcode"] = back_end_module(columns["bitcode"], index, sources.paths[name])
            except CompileError as error:
                columns = columns_without(f"{error.kind}: {error}")
            made.append(row | columns)
    return made


def live_modules(rows: Sequence[Row], programs: Sequence[Row], tools: Tools) -> tuple[list[Row], Sequence[Row]]:
    """Both tables, each module with a link that keeps of it what the heuristic's linked files need.

    A module of which they keep no code stays as it is, and has no score of a link.
    """
    settings = tools.front_end.settings
    with sources_of(rows) as sources, ThreadPoolExecutor(tools.num_threads) as pool:
        objects = _objects(sources, read_input, tools, pool)
        needed: dict[str, tuple[LinkedFile, set[str]]] = {}
        for program in programs:
            file = LinkedFile.of_row(program)
            with suppress(CompileError):  # a file that cannot be linked keeps nothing
                own = {name: objects[name] for name in file.modules}
                for name, symbols in needed_symbols(tools.linker, file, own, tools.timeout_s, settings.ships).items():
                    needed.setdefault(name, (file, set()))[1].update(symbols)

        def placed(row: Row) -> Row:
            file, symbols = needed.get(row["module"], (None, set()))
            if file is None or row["skip_reason"]:
                return row
            link, module = file.part_of(sorted(symbols)), sources.paths[row["module"]]
            with suppress(CompileError):
                link_file(tools.linker, link, {MERGED: objects[row["module"]]}, tools.timeout_s, settings.ships)
                generation = replace(generation_of(module), link=link)
                return row | {"bitcode": module_file(bitcode_of(row["bitcode"]), generation)}
            return row

        return list(pool.map(placed, rows)), programs


def in_form(
    form: Form, rows: Sequence[Row], programs: Sequence[Row], tools: Tools
) -> tuple[Sequence[Row], Sequence[Row]]:
    """A project's sources and linked files, ``artifacts.PROJECT`` and ``PROGRAMS_OF_PROJECT``, in another form."""
    if form == "objects":
        return rows, programs
    make = {"live": live_modules, "whole": whole_programs, "thin": imported_modules}[form]
    return make(rows, programs, tools)
