"""A captured build on disk: tables of its sources and of its programs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mlgo.capture.builds import Build, Program, as_text
from mlgo.capture.extract import EDITED, Extraction, extract
from mlgo.core.artifacts import PROGRAMS_OF_PROJECT, PROJECT, TableWriter, provenance, write_rows
from mlgo.corpus.store import CAPTURED_NAME, PROGRAMS_NAME

_ROWS_AT_A_TIME = 16
"""Rows of a row group: a single module is read in milliseconds, and writing takes little memory."""


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
    rows = extract(extraction, [*build.units, *build.modules], done)
    while some := list(islice(rows, _ROWS_AT_A_TIME)):
        writer.write({name: [row[name] for row in some] for name in PROJECT.names})
        modules += sum(not row["skip_reason"] for row in some)
        edited.update(row[EDITED] for row in some if EDITED in row)
        skipped |= {row["module"]: row["skip_reason"] for row in some if row["skip_reason"]}
    writer.close()
    programs = [_program_row(extraction.project, program, skipped) for program in build.programs]
    write_rows(folder / PROGRAMS_NAME, programs, PROGRAMS_OF_PROJECT, origin)
    return Captured(modules, skipped, len(programs), dict(build.left_out), dict(edited))


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
