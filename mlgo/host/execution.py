"""Modules that are whole programs: linked after a compile, run, and counted."""

from dataclasses import dataclass
from pathlib import Path

from mlgo.base.scratch import scratch_directory
from mlgo.errors import ProgramSize
from mlgo.host.counting import Valgrind, count_instructions, find_valgrind
from mlgo.host.module_file import RunnableProgram, generation_of
from mlgo.host.program import FIRST_LINK_S, link_program
from mlgo.host.toolchain import find_linker
from mlgo.objects.elf import read_sections, text_size


@dataclass(frozen=True)
class ProgramRunner:
    """Links and runs programs on this machine.

    Attributes:
        target: triple of the objects.
        cache_dir: folder for the linker's caches.
        timeout_s: deadline of a run under valgrind, in seconds.
    """

    target: str
    cache_dir: Path
    timeout_s: float

    def find_tools(self) -> tuple[Path, Valgrind]:
        """The linker and valgrind.

        Raises:
            ToolchainError: one of them is missing.
        """
        return find_linker(), find_valgrind()

    def instructions_of(self, module: Path, compiled: Path) -> int | None:
        """What the program executes that a module is; None for a module that is none.

        Args:
            module: its file, which says what the program prints and how large it may be.
            compiled: the object that it became.

        Raises:
            ProgramError: it is too large, does not end, crashes, or prints something else, see the subclasses.
            LinkError: it does not link.
            ToolchainError: the linker or valgrind is missing.
        """
        program = generation_of(module).program
        return None if program is None else self.count(program, compiled)

    def count(self, program: RunnableProgram, compiled: Path) -> int:
        """What a program executes; arguments and errors are those of `instructions_of`."""
        text = text_size(read_sections(compiled.read_bytes()))
        if text > program.most_text_bytes:
            raise ProgramSize(f"text of {text:,} bytes, where {program.most_text_bytes:,} are the bound")
        linker, valgrind = self.find_tools()
        with scratch_directory() as folder:
            link_program(linker, [compiled], folder / "program", self.cache_dir, FIRST_LINK_S, self.target)
            return count_instructions(valgrind, folder / "program", self.timeout_s, program.stdout)
