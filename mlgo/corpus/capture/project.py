"""A captured build as a project: bitcode of its units by the configured clang, and tables of sources and programs.

Bitcode that is there already stays as it is if it is for the configured target and level. A module of another level is
marked anew; one of another target is left out.

Each unit that is done is a file in ``parts/``, so a capture that was killed goes on where it was. Such a file counts
only for the same unit, of the same compiler, configuration and package, whose source has the same size and time.
Headers are not looked at.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from mlgo.base.artifacts import (
    OBJECTS_OF_BUILD,
    PROGRAMS_OF_PROJECT,
    PROJECT,
    Row,
    TableWriter,
    provenance,
    provenance_in,
    read_table,
    write_rows,
)
from mlgo.base.files import content_hash, is_file, is_folder, joined, source_hash
from mlgo.base.names import LANGUAGES
from mlgo.base.output import remove_tables
from mlgo.base.scratch import scratch_directory
from mlgo.base.threads import in_threads
from mlgo.corpus.build import columns_of, columns_without, ir_of, program_of
from mlgo.corpus.capture.bitcode import BitcodeUnit, Piece, made_by, same_machine, triple_of
from mlgo.corpus.capture.builds import Build, BuildUnit, BuiltProgram, as_text, is_shared
from mlgo.corpus.capture.commands import CompileStep
from mlgo.corpus.capture.objects import object_rows
from mlgo.corpus.capture.options import (
    TOLERANT,
    is_of_level,
    language_of,
    level_of,
    mark_anew,
    missed,
    portable,
    profile_of,
    without_unknown,
)
from mlgo.corpus.store import CAPTURED_NAME, OBJECTS_NAME, PROGRAMS_NAME
from mlgo.errors import ArtifactError, CompileError, CompilerExit, ConfigError, CorpusError
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file
from mlgo.host.rustc import RUST_LIBRARY

_FOR_THE_LINK = b'!"EnableSplitLTOUnit"'
"""Flag of modules that clang has made for an optimization in the link."""

EDITED, MISSED = "level", "missed"
"""Keys of a row, besides the columns of its table: the level that a module had before it was marked anew, else empty;
and options of its code generation that it was compiled without, in one line."""


@dataclass(frozen=True)
class Extraction:
    """Settings by which units become modules."""

    project: str  # name in the corpus
    licence: str  # SPDX identifier, or empty
    front_end: FrontEnd  # compiles sources
    num_threads: int  # compiles at a time
    # Folders with random names, which must not get into modules; the longest first.
    hidden: tuple[Path, ...] = ()


def extract(
    extraction: Extraction, units: Sequence[BuildUnit | BitcodeUnit], parts: Path | None = None
) -> Iterator[Row]:
    """Rows of ``artifacts.PROJECT``, with `EDITED` and `MISSED`, in the order of units; a few are in memory at a time.

    A unit that is no C or C++, whose source is gone, or that does not compile is a row with its reason. With ``parts``,
    rows that an earlier call has left in this folder are not made again.
    """
    settings = _identity_of(extraction)

    def one(unit: BuildUnit | BitcodeUnit) -> Row:
        if parts is None or _problem(unit):
            return _row(extraction, unit)
        path = parts / f"{content_hash([settings, _identity(unit)])}.parquet"
        row = _read_part(path)
        if row is None:
            row = _row(extraction, unit)
            write_rows(path, [row], PROJECT, {key: row[key] for key in (EDITED, MISSED)})
        return row

    return in_threads(one, units, extraction.num_threads)


def _read_part(path: Path) -> Row | None:
    """The row of a part; None if there is none, or it is damaged."""
    try:
        table = read_table(path, PROJECT)
        origin = provenance_in(path, table.schema)
        (row,) = table.to_pylist()
        return {**row, **{key: origin[key] for key in (EDITED, MISSED)}}
    except (ArtifactError, KeyError, ValueError):
        return None


def _problem(unit: BuildUnit | BitcodeUnit) -> str:
    """Why a unit cannot be a module, if that is known without a compile."""
    return unit.compile.problem if isinstance(unit, BuildUnit) else unit.problem


def _row(extraction: Extraction, unit: BuildUnit | BitcodeUnit) -> Row:
    if isinstance(unit, BuildUnit):
        language, folder = unit.compile.language, unit.compile.folder
    else:
        language, folder = "", unit.piece.path.parent
    row = {"project": extraction.project, "module": unit.name, "language": language, "licence": extraction.licence}
    row[EDITED] = row[MISSED] = ""
    try:
        if problem := _problem(unit):
            raise CorpusError(problem)
        with scratch_directory() as scratch:
            bitcode = scratch / "module.bc"
            if isinstance(unit, BuildUnit):
                return row | _compiled(unit.compile, extraction, bitcode)
            return row | _taken(unit, extraction, bitcode)
    except CorpusError as error:
        reason = str(error)
    except ConfigError as error:
        reason = f"options: {error}"
    except CompileError as error:
        reason = f"{error.kind}: {str(error).replace(f'{folder}/', '')}"
    return row | columns_without(as_text(reason))


# Options of code generation that bitcode holds; it does not hold one section for each function, and the like. Zig's
# driver takes the processor as -mcpu=, and clang for x86 does not.
_IN_BITCODE = re.compile(r"-mcpu=|-[fm](?:no-)?omit-(?:leaf-)?frame-pointer")


def _compiled(one: CompileStep, extraction: Extraction, bitcode: Path) -> Row:
    """Columns of a source; `CorpusError` with kind, colon and reason where it cannot be a module."""
    front_end = extraction.front_end
    if one.language not in LANGUAGES:
        raise CorpusError(f"language: {one.language or f'none is known for {Path(one.source).name}'}")
    if not is_folder(one.folder):
        raise CorpusError(f"gone: folder {one.folder.name}, where it was compiled, is no longer there")
    if not is_file(one.folder / one.source):
        raise CorpusError(f"gone: {one.source} is no longer there")
    if one.bitcode is not None:
        return _taken(BitcodeUnit("", Piece(one.bitcode), one.options), extraction, bitcode)
    options, source, profile = portable(one.options), one.source, profile_of(one.options, one.folder)
    if profile is not None and not is_file(profile[1]):
        raise CorpusError(f"gone: profile {profile[1].name}, which {profile[0]} names, is not there")
    hiding = [f"-ffile-prefix-map={folder}=." for folder in extraction.hidden]
    if hiding and Path(source).is_absolute():
        source = os.path.relpath(source, one.folder)

    def attempt(flags: list[str]) -> None:
        front_end.compile_to_bitcode(one.folder, one.language, flags, source, bitcode, profile)

    known, _ = without_unknown([*options.front_end, *TOLERANT, *hiding], attempt)
    columns = columns_of(front_end, bitcode)
    of_code = [option for option in known if option.startswith(("-f", "-m")) and not _IN_BITCODE.match(option)]
    generation = tuple(option for option in of_code if option not in hiding)
    in_code_generation = front_end.task and front_end.task.in_code_generation  # whose optimization has used the profile
    attached = Generation(generation, profile=None if in_code_generation else generation_of(bitcode).profile)
    stored = module_file(bitcode_of(columns["bitcode"]), attached)
    dropped = [*options.dropped, *(option for option in options.front_end if option not in known)]
    return columns | {"bitcode": stored, MISSED: missed(dropped)}


def _taken(unit: BitcodeUnit, extraction: Extraction, bitcode: Path) -> Row:
    """Columns of a module that is there already, for the target and the level of the configuration; see `_compiled`."""
    front_end = extraction.front_end
    toolchain, wanted = front_end.toolchain, front_end.settings.optimization
    try:
        bitcode.write_bytes(unit.piece.read())
        index = unit.index.read() if unit.index else b""
    except OSError as error:
        raise CorpusError(f"gone: {unit.piece.path.name} cannot be read: {error.strerror}") from error
    own = generation_of(bitcode)
    options, index = own.options or unit.options, own.index or index
    bitcode.write_bytes(bitcode_of(bitcode.read_bytes()))
    try:
        ir = ir_of(front_end, bitcode)
    except CompilerExit as error:
        version = made_by(bitcode.read_bytes())
        if version is None or version[:1] <= toolchain.version[:1]:
            raise
        made, ours = (".".join(map(str, numbers)) for numbers in (version, toolchain.version))
        raise CorpusError(
            f"newer: made by LLVM {made}, and LLVM {ours} cannot read it; set toolchain: to a newer clang"
        ) from error
    language, level = language_of(ir), level_of(ir)
    _check_taken(front_end, triple_of(bitcode.read_bytes()), language, level, bool(index), ir)
    edited = ""
    if not is_of_level(level, wanted):
        mark_anew(front_end, ir, wanted, bitcode)
        ir, edited = ir_of(front_end, bitcode), level
    columns = columns_of(front_end, bitcode, ir)
    columns["bitcode"] = module_file(columns["bitcode"], Generation(tuple(options), index))
    return {**columns, "language": language, EDITED: edited}


def _check_taken(front_end: FrontEnd, triple: str, language: str, level: str, has_index: bool, ir: bytes) -> None:
    target, task = front_end.toolchain.target, front_end.task
    if triple and not same_machine(triple, target):
        raise CorpusError(f"target: made for {triple}, not for {target}; set target: to take it")
    if language not in LANGUAGES:
        raise CorpusError(f"language: {language}")
    if level == "-O0":
        raise CorpusError("level: compiled with -O0, so its functions refuse optimization; compile it with -O1")
    if has_index and task and task.in_code_generation:
        raise CorpusError(f"index: a module of ThinLTO is not optimized yet, and task {task.name} needs one that is")
    if not has_index and _FOR_THE_LINK in ir:
        raise CorpusError(
            "optimized: made with -flto, so its first optimization is done; compile with -Xclang -fembed-bitcode=all"
        )


_PARTS = "parts"
_ROWS_OF_A_GROUP, _BYTES_OF_A_GROUP = 128, 8 << 20
"""Row groups of the table: so few that their list is read in milliseconds, so small that one of them is, too."""


@dataclass(frozen=True)
class Captured:
    """Counts and reasons of a captured build."""

    modules: int  # sources that became modules
    skipped: dict[str, str]  # the others, with reasons, by name
    programs: int  # linked files
    left_out: dict[str, str]  # linked files that are not among them, with reasons, by name
    edited: dict[str, int]  # number of modules that had another level, by level
    foreign: dict[str, list[str]]  # objects and archives that were not seen being made, by the program that has them
    missed: dict[str, int]  # number of modules that were compiled without options of their code generation, by these


def write_project(folder: Path, build: Build, root: Path, extraction: Extraction, *, ran: bool = True) -> Captured:
    """Compile the units of a build to bitcode and write its tables: objects first, which builds replace, programs last.

    What a run before this one had done when it was killed is not compiled again.

    Args:
        root: folder that names of the build are relative to.
        ran: the build was run just now, see `object_rows`.
    """
    objects = object_rows(extraction.project, build.units, ran=ran)
    write_rows(folder / OBJECTS_NAME, objects, OBJECTS_OF_BUILD, provenance(root=str(root), moved=build.moved))
    toolchain = extraction.front_end.toolchain
    origin = provenance(
        compiler=toolchain.name,
        target=toolchain.target,
        task=extraction.front_end.task.name if extraction.front_end.task else "",
        optimization=extraction.front_end.settings.optimization,
    )
    units: list[BuildUnit | BitcodeUnit] = [*build.units, *build.modules]
    skipped, edited, missed = dict[str, str](), Counter[str](), Counter[str]()
    writer = TableWriter(folder / CAPTURED_NAME, PROJECT, origin)
    parts = joined(folder, _PARTS)
    for some in _groups(tqdm(extract(extraction, units, parts), "bitcode", len(units), disable=None)):
        writer.write({name: [row[name] for row in some] for name in PROJECT.names})
        edited.update(row[EDITED] for row in some if row[EDITED])
        missed.update(row[MISSED] for row in some if row[MISSED])
        skipped |= {row["module"]: row["skip_reason"] for row in some if row["skip_reason"]}
    writer.close()
    remove_tables(parts)
    modules = {unit.name for unit in units} - skipped.keys()
    programs = [program_of(modules, _program_row(extraction.project, program)) for program in build.programs]
    write_rows(folder / PROGRAMS_NAME, programs, PROGRAMS_OF_PROJECT, origin)
    foreign = {
        one.name: [name for name in one.foreign if not is_shared(name) and not name.startswith(RUST_LIBRARY)]
        for one in build.programs
    }
    foreign = {name: files for name, files in foreign.items() if files}
    return Captured(len(modules), skipped, len(programs), dict(build.left_out), dict(edited), foreign, dict(missed))


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows, as many at a time as make a row group."""
    held: list[Row] = []
    num_bytes = 0
    for row in rows:
        held.append(row)
        num_bytes += len(row["bitcode"] or b"")
        if len(held) >= _ROWS_OF_A_GROUP or num_bytes >= _BYTES_OF_A_GROUP:
            yield held
            held, num_bytes = [], 0
    if held:
        yield held


def _identity_of(extraction: Extraction) -> list[object]:
    """Settings that decide what units become."""
    front_end = extraction.front_end
    toolchain, task = front_end.toolchain, front_end.task
    names = [extraction.project, extraction.licence, *map(str, extraction.hidden)]
    compiler = [toolchain.sha256, toolchain.target, task.name if task else ""]
    return [names, compiler, front_end.settings.model_dump(mode="json"), source_hash()]


def _identity(unit: BuildUnit | BitcodeUnit) -> list[object]:
    """A unit in words, and the states of its files."""
    if isinstance(unit, BuildUnit):
        return [repr(unit), _stamp(unit.compile.folder / unit.compile.source)]
    return [repr(unit), *(_stamp(piece.path) for piece in (unit.piece, unit.index) if piece)]


def _stamp(path: Path) -> list[int] | None:
    """Size and time of a file; None if it is not there."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns]


def _program_row(project: str, program: BuiltProgram) -> Row:
    link = program.link
    script = link.version_script
    return {
        "project": project,
        "program": program.name,
        "kind": link.kind,
        "parts": [{"kind": part.kind, "modules": list(part.units)} for part in program.parts],
        "foreign": list(program.foreign),
        "libraries": [as_text(one) for one in link.libraries],
        "options": [as_text(one) for one in link.options],
        "version_script": script.read_text(errors="replace") if script is not None and is_file(script) else "",
        "export_dynamic": link.export_dynamic,
        "entry": as_text(link.entry),
    }
