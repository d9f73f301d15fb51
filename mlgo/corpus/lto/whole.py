"""Whole programs: each linked file of a project as one module, or as a few where it is too large for one compile."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from mlgo.base.scratch import scratch_directory
from mlgo.corpus.build import columns_of, columns_without
from mlgo.corpus.lto.groups import cut
from mlgo.corpus.lto.merging import merge, stand_in
from mlgo.corpus.lto.project import Row, Sources, Tools, remade, sources_of
from mlgo.errors import CompileError, LinkError
from mlgo.host.linked import NOTHING_LEFT, LinkedFile
from mlgo.host.module_file import generation_of, with_options
from mlgo.objects.elf import global_symbols, read_sections, section_name

_RUNS_AT_START = (b".init_array", b".ctors", b".preinit_array")


def whole_programs(rows: Sequence[Row], programs: Sequence[Row], tools: Tools) -> tuple[list[Row], list[Row]]:
    """Merge the modules of each linked file.

    Args:
        rows: of ``artifacts.PROJECT``.
        programs: rows of ``artifacts.PROGRAMS_OF_PROJECT``.
        tools: what merges, and how much at most.

    Returns:
        Both tables with the merged modules. A module has the name of its linked file; groups are counted after ``#``.
    """
    with sources_of(rows) as sources, ThreadPoolExecutor(tools.num_threads) as pool:
        return remade(rows, programs, tools, lambda file: _modules_of(file, sources, tools, pool))


def _modules_of(file: LinkedFile, sources: Sources, tools: Tools, pool: ThreadPoolExecutor) -> list[Row]:
    with scratch_directory() as folder:
        return _merged_in(folder, file, sources, tools, pool)


def _merged_in(folder: Path, file: LinkedFile, sources: Sources, tools: Tools, pool: ThreadPoolExecutor) -> list[Row]:
    taken = merge(tools.linker, file, sources.paths, folder / "all.bc", tools.timeout_s)
    names = [name for name in file.modules if name in taken]
    lengths = [_lengths(sources.rows[name]) for name in names]
    if sum({body: length for of in lengths for body, length in of.items()}.values()) <= tools.max_instructions:
        return [_merged_row(file.name, names, sources, tools, folder / "all.bc")]
    objects = _stand_ins(names, sources, folder, tools, pool)
    symbols = [frozenset.union(*global_symbols(objects[name].read_bytes())) for name in names]
    groups = [[names[number] for number in group] for group in cut(symbols, lengths, tools.max_instructions)]
    linked = replace(file, parts=tuple(("object", (name,)) for name in names))

    def merged(number: int) -> Row:
        group, bitcode = groups[number], folder / f"group{number}.bc"
        merge(tools.linker, linked, objects | {name: sources.paths[name] for name in group}, bitcode, tools.timeout_s)
        return _merged_row(f"{file.name}#{number}", group, sources, tools, bitcode)

    return list(pool.map(merged, range(len(groups))))


def _check_left(bitcode: Path, tools: Tools) -> None:
    """Refuse a merged module of which nothing stays when it is optimized: all is internal, and nothing runs at start.

    Raises:
        CompileError: it does not compile, or nothing is left.
    """
    symbols = bitcode.with_suffix(".o")
    stand_in(tools.front_end.toolchain, bitcode, symbols, tools.front_end.settings)
    data = symbols.read_bytes()
    sections = read_sections(data)
    names = [section_name(data, sections, number) for number in range(len(sections))]
    if not global_symbols(data)[0] and not any(name.startswith(_RUNS_AT_START) for name in names):
        raise LinkError(NOTHING_LEFT)


def _stand_ins(
    names: Sequence[str], sources: Sources, folder: Path, tools: Tools, pool: ThreadPoolExecutor
) -> dict[str, Path]:
    """An object with the symbols of each module, by name."""
    objects = {name: folder / f"{number}.o" for number, name in enumerate(names)}

    def compile_one(name: str) -> None:
        stand_in(tools.front_end.toolchain, sources.paths[name], objects[name], tools.front_end.settings)

    list(pool.map(compile_one, names))
    return objects


def _lengths(row: Row) -> dict[int, int]:
    """Length of each function by its body's hash."""
    return dict(zip(row["function_hashes"], row["function_sizes"], strict=True))


def _merged_row(name: str, members: Sequence[str], sources: Sources, tools: Tools, bitcode: Path) -> Row:
    """The row of a merged module. Its code is generated with what all of its members have in common."""
    row = sources.named_as(name, members)
    try:
        _check_left(bitcode, tools)
        row |= columns_of(tools.front_end, bitcode)
    except CompileError as error:
        return row | columns_without(f"{error.kind}: {error}")
    own = [generation_of(sources.paths[member]) for member in members]
    options = [option for option in own[0].options if all(option in one.options for one in own)]
    profile = own[0].profile if all(one.profile == own[0].profile for one in own) else None
    return row | {"bitcode": with_options(row["bitcode"], options, profile=profile)}
