"""A program whose translation units GCC compiles under a policy: built, run, and its instructions counted.

Objects of GCC for x86-64 Linux follow the same binary interface as clang's, with or without ``-fpie``, so they link
with the C library of mlgo/host/program.py as they are. What is counted is then comparable: only the objects differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.base.scratch import scratch_directory
from mlgo.host.counting import CountedRun, Valgrind, count_run
from mlgo.host.program import link_program
from mlgo.jit.gcc.compile import GccObject, GccSettings, TranslationUnit, compile_unit
from mlgo.jit.gcc.find import Gcc

_FIRST_LINK_S = 600.0
"""Deadline of a link, in seconds: the first one builds the C library."""


@dataclass(frozen=True)
class Counting:
    """How programs are linked and run.

    Attributes:
        linker: what `toolchain.find_linker` gives.
        valgrind: what `counting.find_valgrind` gives.
        cache_dir: folder for the linker's caches.
        timeout_s: deadline of a run under valgrind, in seconds.
    """

    linker: Path
    valgrind: Valgrind
    cache_dir: Path
    timeout_s: float = 120.0


def count_program(
    gcc: Gcc,
    name: str,
    units: Sequence[tuple[TranslationUnit, Sequence[int] | None]],
    settings: GccSettings,
    counting: Counting,
) -> tuple[CountedRun, tuple[GccObject, ...]]:
    """Compile all units of a program, link them, run the program and count what it executes.

    Args:
        gcc: what `find.find_gcc` gives.
        name: of the program, for messages.
        units: its units, one of which defines ``main``, in the order of linking, each with the positions of the
            eliminations to perform; None leaves the choice to GCC.
        settings: of the compiles.
        counting: how to link and run.

    Returns:
        What the run did, and the objects in the order of the units.

    Raises:
        ValueError: a position that a unit does not have.
        CompileError: a unit does not compile, the objects do not link, or the program crashes or does not end.
        ToolchainError: C++, and there is no g++.
    """
    with scratch_directory() as directory:
        paths = [directory / f"{number}.o" for number in range(len(units))]
        objects = tuple(
            compile_unit(gcc, unit, performed, settings, object_path=path)
            for (unit, performed), path in zip(units, paths, strict=True)
        )
        program = directory / name
        link_program(counting.linker, paths, program, counting.cache_dir, _FIRST_LINK_S, gcc.target)
        return count_run(counting.valgrind, program, counting.timeout_s), objects
