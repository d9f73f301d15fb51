"""A captured build on disk: tables of its sources and of its programs.

While units are compiled, each few of them that are done are a file in ``parts/``. So a capture that was killed goes on
where it was. A part counts only for the same units, of the same compiler, configuration and package, whose sources
have the same size and time. Headers are not looked at.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mlgo.base.artifacts import (
    PROGRAMS_OF_PROJECT,
    PROJECT,
    TableWriter,
    provenance,
    read_provenance,
    read_table,
    write_rows,
)
from mlgo.base.files import content_hash, source_hash
from mlgo.corpus.capture.bitcode import BitcodeUnit
from mlgo.corpus.capture.builds import Build, Program, Unit, as_text
from mlgo.corpus.capture.extract import EDITED, Extraction, extract
from mlgo.corpus.store import CAPTURED_NAME, PROGRAMS_NAME
from mlgo.errors import ArtifactError

_PARTS = "parts"
_ROWS_OF_A_PART = 16
_ROWS_OF_A_GROUP, _BYTES_OF_A_GROUP = 128, 8 << 20
"""Row groups of the table: so few that their list is read in milliseconds, so small that one of them is, too."""


@dataclass(frozen=True)
class Captured:
    """What became of a build.

    Attributes:
        modules: sources that became modules.
        skipped: the others, with reasons, by name.
        programs: linked files.
        left_out: linked files that are not among them, with reasons, by name.
        edited: number of modules that had another level, by level.
    """

    modules: int
    skipped: dict[str, str]
    programs: int
    left_out: dict[str, str]
    edited: dict[str, int]


def write_project(
    folder: Path, build: Build, extraction: Extraction, done: Callable[[], object] = lambda: None
) -> Captured:
    """Compile the units of a build to bitcode and write its tables, programs last.

    What a run before this one had done when it was killed is not compiled again.

    Raises:
        ArtifactError: a file cannot be written.
    """
    toolchain = extraction.front_end.toolchain
    origin = provenance(
        compiler=toolchain.name,
        target=toolchain.target,
        task=extraction.front_end.task.name if extraction.front_end.task else "",
        optimization=extraction.front_end.settings.optimization,
    )
    modules, skipped, edited = 0, dict[str, str](), Counter[str]()
    writer = TableWriter(folder / CAPTURED_NAME, PROJECT, origin)
    for some in _groups(_parts(folder / _PARTS, [*build.units, *build.modules], extraction, done)):
        writer.write({name: [row[name] for row in some] for name in PROJECT.names})
        modules += sum(not row["skip_reason"] for row in some)
        edited.update(row[EDITED] for row in some if EDITED in row)
        skipped |= {row["module"]: row["skip_reason"] for row in some if row["skip_reason"]}
    writer.close()
    shutil.rmtree(folder / _PARTS, ignore_errors=True)
    programs = [_program_row(extraction.project, program, skipped) for program in build.programs]
    write_rows(folder / PROGRAMS_NAME, programs, PROGRAMS_OF_PROJECT, origin)
    return Captured(modules, skipped, len(programs), dict(build.left_out), dict(edited))


def _parts(
    folder: Path, units: Sequence[Unit | BitcodeUnit], extraction: Extraction, done: Callable[[], object]
) -> Iterator[list[dict[str, Any]]]:
    """Rows of all units in order, a few at a time; those in the folder are read, others compiled and put there."""
    some = [units[at : at + _ROWS_OF_A_PART] for at in range(0, len(units), _ROWS_OF_A_PART)]
    common = _circumstances(extraction)
    paths = [
        folder / f"{number:06d}-{content_hash([common, *map(_identity, part)])}.parquet"
        for number, part in enumerate(some)
    ]
    there = {path for path in paths if path.exists()}
    missing = [unit for path, part in zip(paths, some, strict=True) if path not in there for unit in part]
    rows = extract(extraction, missing, done)
    for path, part in zip(paths, some, strict=True):
        if path in there and (found := _read_part(path, len(part))) is not None:
            for _ in part:
                done()
        else:
            found = list(islice(rows, len(part)) if path not in there else extract(extraction, part, done))
            write_rows(path, [{name: row[name] for name in PROJECT.names} for row in found], PROJECT, _levels(found))
        yield found


def _groups(parts: Iterable[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """The same rows, as many at a time as make a row group."""
    held: list[dict[str, Any]] = []
    num_bytes = 0
    for part in parts:
        held += part
        num_bytes += sum(len(row["bitcode"] or b"") for row in part)
        if len(held) >= _ROWS_OF_A_GROUP or num_bytes >= _BYTES_OF_A_GROUP:
            yield held
            held, num_bytes = [], 0
    if held:
        yield held


def _read_part(path: Path, length: int) -> list[dict[str, Any]] | None:
    """Rows of a part; None if it is damaged."""
    try:
        rows = read_table(path, PROJECT).to_pylist()
        levels = read_provenance(path)[EDITED]
    except (ArtifactError, KeyError):
        return None
    if len(rows) != length or len(levels) != length:
        return None
    return [row | ({EDITED: level} if level else {}) for row, level in zip(rows, levels, strict=True)]


def _levels(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {EDITED: [row.get(EDITED, "") for row in rows]}


def _circumstances(extraction: Extraction) -> list[Any]:
    """What all units of a capture have in common and decides what they become."""
    front_end = extraction.front_end
    toolchain, task = front_end.toolchain, front_end.task
    names = [extraction.project, extraction.licence, *map(str, extraction.hidden)]
    compiler = [toolchain.sha256, toolchain.target, task.name if task else ""]
    return [names, compiler, front_end.settings.model_dump(mode="json"), source_hash()]


def _identity(unit: Unit | BitcodeUnit) -> list[Any]:
    """What decides what a unit becomes."""
    if isinstance(unit, Unit):
        one = unit.compile
        words = [str(one.folder), one.source, one.language, one.problem, *one.options]
        return [unit.name, words, _stamp(one.folder / one.source)]
    piece, index = unit.piece, unit.index
    words = [str(piece.path), str(piece.offset), str(piece.size), unit.problem, *unit.options]
    return [unit.name, words, _stamp(piece.path), _stamp(index.path) if index else None]


def _stamp(path: Path) -> list[int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns]


def _program_row(project: str, program: Program, skipped: dict[str, str]) -> dict[str, Any]:
    link = program.link
    parts = [(part.kind, [name for name in part.units if name not in skipped]) for part in program.parts]
    script = link.version_script
    return {
        "project": project,
        "program": program.name,
        "kind": link.kind,
        "parts": [{"kind": kind, "modules": names} for kind, names in parts if names],
        "foreign": [*program.foreign, *(name for part in program.parts for name in part.units if name in skipped)],
        "libraries": [as_text(one) for one in link.libraries],
        "options": [as_text(one) for one in link.options],
        "version_script": script.read_text(errors="replace") if script is not None and script.is_file() else "",
        "export_dynamic": link.export_dynamic,
        "entry": as_text(link.entry),
    }
