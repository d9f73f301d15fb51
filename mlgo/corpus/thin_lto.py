"""ThinLTO: modules as they are after each has imported what it calls in others.

ThinLTO compiles twice. The pre-link compile inlines within a source. With ``-ffat-lto-objects`` it writes an object
whose code is that of an ordinary compile, byte for byte, and the bitcode for the link. So its decisions are those on
the module of form ``objects``. Then the thin link says what each module imports, and the back ends compile the modules
anew, each with its own index.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo.base.artifacts import Row
from mlgo.base.config import Form
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.build import columns_of, columns_without
from mlgo.corpus.whole_program import Sources, Tools, remake_programs, sources_of, whole_programs
from mlgo.errors import CompileError, ConfigError
from mlgo.host.linker import LinkedFile, link_inputs, link_options, link_to
from mlgo.host.module_file import bitcode_of, generation_of, with_options
from mlgo.host.session import compile_plain

FAT_OBJECT = ("-flto=thin", "-ffat-lto-objects")
"""Options of a pre-link compile."""
ONE_JOB = ("--thinlto-jobs=1",)
"""Option of a link whose back ends run one after another: an advisor has one channel."""


def imported_modules(rows: Sequence[Row], programs: Sequence[Row], tools: Tools) -> tuple[list[Row], list[Row]]:
    """Replace the modules of each linked file by those that its back ends compile."""
    task = tools.front_end.task
    if task is not None and task.in_code_generation:
        raise ConfigError(f"corpus.form: thin holds modules before optimization; task {task.name} needs them after it")
    with sources_of(rows) as sources, ThreadPoolExecutor(tools.num_threads) as pool:
        objects = _pre_linked(sources, tools, pool)
        return remake_programs(rows, programs, tools, lambda file: _modules_of(file, sources, objects, tools))


def _pre_linked(sources: Sources, tools: Tools, pool: ThreadPoolExecutor) -> dict[str, Path]:
    """Fat objects of all modules under the heuristic; a module that does not compile has none."""
    front_end = tools.front_end

    def compile_one(name: str) -> Path:
        path = sources.paths[name]
        fat = path.with_suffix(".fat.bc")
        fat.write_bytes(fat_module(path))
        output = path.with_suffix(".o")
        try:
            compile_plain(front_end.toolchain, fat, front_end.settings, object_path=output)
        except CompileError:  # the link reports that it is missing
            pass
        finally:
            fat.unlink()
        return output

    return dict(zip(sources.paths, pool.map(compile_one, sources.paths), strict=True))


def fat_module(module: Path) -> bytes:
    """A module whose compile is the pre-link compile of ThinLTO."""
    own = generation_of(module)
    return with_options(bitcode_of(module.read_bytes()), [*own.options, *FAT_OBJECT], profile=own.profile)


def back_end_module(imported: bytes, index: Path, source: Path) -> bytes:
    """A module whose compile is one of ThinLTO's back ends, with the options of the ``source`` before the import."""
    own = generation_of(source)
    return with_options(imported, own.options, index.read_bytes(), own.profile)


def thin_link(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], folder: Path, timeout_s: float
) -> dict[str, tuple[Path, Path]]:
    """Decide what each module of a linked file imports.

    Returns:
        Bitcode after the import and its index, by name of the module, in the order of linking; members of archives that
        nothing needs are missing.
    """
    # The index holds the names of objects as the link has them. With numbers it is the same in every folder.
    paths = {name: Path(f"{number}.o") for number, name in enumerate(file.modules)}
    for name, path in paths.items():
        os.link(objects[name], folder / path)
    options = ["--gc-sections", "--fat-lto-objects", "--thinlto-emit-index-files", *ONE_JOB]
    temporary = ["--lto-O1", "--lto-emit-llvm", "--save-temps=import"]  # at level 0 nothing is imported
    arguments = [*options, *temporary, *link_options(file, folder), *link_inputs(file, paths)]
    link_to(folder / "linked", linker, arguments, timeout_s, cwd=folder)
    found = {
        name: (folder / f"{path}.3.import.bc", folder / f"{path.stem}.o.thinlto.bc") for name, path in paths.items()
    }
    return {name: both for name, both in found.items() if both[0].exists()}


def _modules_of(file: LinkedFile, sources: Sources, objects: Mapping[str, Path], tools: Tools) -> list[Row]:
    made = []
    with scratch_directory() as folder:
        for name, (bitcode, index) in thin_link(tools.linker, file, objects, folder, tools.timeout_s).items():
            row = sources.named_as(f"{file.name}:{name}", [name])
            try:
                columns = columns_of(tools.front_end, bitcode)
                columns["bitcode"] = back_end_module(columns["bitcode"], index, sources.paths[name])
            except CompileError as error:
                columns = columns_without(f"{error.kind}: {error}")
            made.append(row | columns)
    return made


def in_form(
    form: Form, rows: Sequence[Row], programs: Sequence[Row], tools: Tools
) -> tuple[Sequence[Row], Sequence[Row]]:
    """A project's sources and linked files, ``artifacts.PROJECT`` and ``PROGRAMS_OF_PROJECT``, in another form."""
    if form == "objects":
        return rows, programs
    make = whole_programs if form == "whole" else imported_modules
    return make(rows, programs, tools)
