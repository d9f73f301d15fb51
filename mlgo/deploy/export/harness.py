"""A program that asks a model as LLVM's release mode does, by the names that LLVM looks up."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlgo.base.scratch import scratch_directory
from mlgo.base.work import shared_folder
from mlgo.errors import CompilerExit, CompileTimeout
from mlgo.host.process import run_bounded, without_folders
from mlgo.host.tasks.task import Task
from mlgo.host.toolchain import zig_environment

ASK = Path(__file__).parent / "ask.cpp"
"""Source of the program."""

_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Harness:
    """The program with a model in it.

    Attributes:
        program: executable.
        dtype: of a decision.
    """

    program: Path
    dtype: np.dtype

    def ask(self, questions: Mapping[str, np.ndarray], repeats: int = 1) -> tuple[np.ndarray, float]:
        """Ask all questions.

        Args:
            questions: by feature, [num_steps] or [num_steps, num_columns].
            repeats: how often all of them, for the time.

        Returns:
            int64 or float32 [num_steps], the decisions; and nanoseconds of processor time for one of them.

        Raises:
            CompilerExit: the program fails.
            CompileTimeout: it does not end.
        """
        with scratch_directory() as scratch:
            asked, told = scratch / "questions", scratch / "answers"
            with asked.open("wb") as file:
                file.write(struct.pack("<qq", len(questions), len(next(iter(questions.values())))))
                for name, values in questions.items():
                    word, rows = f"feed_{name}".encode(), np.ascontiguousarray(values)
                    file.write(struct.pack("<qq", len(word), rows[:1].nbytes) + word + rows.tobytes())
            run_tool([str(self.program), str(asked), str(told), str(self.dtype.itemsize), str(repeats)])
            found = told.read_bytes()
        return np.frombuffer(found[8:], self.dtype), struct.unpack("<d", found[:8])[0]


@contextmanager
def build_harness(task: Task, command: Sequence[str]) -> Iterator[Harness]:
    """Compile and link the program; it goes at the end of the block.

    Args:
        task: decision problem of the model.
        command: compiler with its options, `ASK`, the folder of the model's header, and what to link.

    Raises:
        CompilerExit: the model does not compile.
        CompileTimeout: not in time.
    """
    names = [f"-DMODEL={task.model}", f'-DHEADER="{task.model}.h"', f'-DRESULT="fetch_{task.decision}"']
    with scratch_directory() as scratch:
        program = scratch / "ask"
        run_tool([*command, *names, "-o", str(program)])
        yield Harness(program, np.dtype(task.actions.dtype))


def run_tool(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a compiler, a linker or a model to its end.

    Args:
        command: program and arguments.
        cwd: where it runs.
        env: its environment; by default zig's caches are in the folder of shared work.

    Raises:
        CompilerExit: it fails.
        CompileTimeout: it does not end within five minutes.
    """
    run = run_bounded(command, _TIMEOUT_S, cwd=cwd, env=env or zig_environment(shared_folder() / "zig-cache"))
    if run.returncode is None:
        raise CompileTimeout(f"no end within {_TIMEOUT_S:g} s")
    if run.returncode != 0:
        raise CompilerExit(f"the exported model does not compile or run: {without_folders(run.stderr.strip())[:500]}")
