"""Programs that run: all sources of a project as one module, with what the program prints and how large it may be."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlgo.base.scratch import scratch_directory
from mlgo.corpus.lto.project import Row, Tools
from mlgo.corpus.lto.whole import whole_programs
from mlgo.errors import CompileError, CorpusError
from mlgo.host.execution import ProgramRunner
from mlgo.host.module_file import RunnableProgram, bitcode_of, generation_of, with_options
from mlgo.host.session import compile_plain
from mlgo.objects.elf import read_sections, text_size


@dataclass(frozen=True)
class Running:
    """How the program of a project is run.

    Attributes:
        runner: links, runs, counts.
        stdout: what the program must print.
        max_growth: text that a compile of it may have, as a multiple of the text under the heuristic.
    """

    runner: ProgramRunner
    stdout: bytes
    max_growth: float


def runnable_program(
    rows: Sequence[Row], programs: Sequence[Row], tools: Tools, running: Running
) -> tuple[list[Row], list[Row]]:
    """Merge the sources of a project to one module that is a program, and see that it runs under the heuristic.

    Args:
        rows: of ``artifacts.PROJECT``; one of them defines ``main``.
        programs: the one linked file of all of them, a row of ``artifacts.PROGRAMS_OF_PROJECT``.
        tools: what merges; a program is one module, however large.
        running: how it is run.

    Returns:
        Both tables. The module's file holds what it prints and its bound, see mlgo/host/module_file.py.

    Raises:
        CorpusError: it cannot be merged or linked, or does not print what it should.
    """
    executable = [{**program, "kind": "program", "program": program["project"], "options": []} for program in programs]
    merged, linked = whole_programs(rows, executable, replace(tools, max_instructions=sys.maxsize))
    named = {program["program"] for program in linked}
    return [_checked(row, tools, running) if row["module"] in named else row for row in merged], linked


def _checked(row: Row, tools: Tools, running: Running) -> Row:
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
    return row | {"bitcode": with_options(bitcode_of(row["bitcode"]), own.options, own.index, own.profile, program)}
