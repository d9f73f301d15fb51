"""The form of an exported policy: files that a compiler takes, the questions it is asked, and a program that asks."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import read_table
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.seeding import sample
from mlgo.errors import ArtifactError, CompilerExit, CompileTimeout, PolicyError
from mlgo.host.action_space import check_features
from mlgo.host.process import run_bounded, without_folders
from mlgo.host.tasks.ir2vec import vocabulary_of
from mlgo.host.tasks.task import Task, get_task
from mlgo.host.toolchain import zig_environment
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import values_of

Ask = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Maps questions, by feature [num_steps] or [num_steps, num_columns], to decisions, int64 or float32 [num_steps]."""


class Form(Protocol):
    """A form in which policies are exported."""

    name: ClassVar[str]  # of its folder, and of its entry in `parity.json`
    # Recorded questions that are worth asking it, by the time that one takes; None for all.
    max_questions: ClassVar[int | None]

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """Write a policy; the same policy gives the same bytes.

        Args:
            policy: what to export.
            trace: recorded questions, at least their columns; has types and shapes of the inputs.
            folder: replaced.
        """
        ...

    def opened(self, folder: Path, policy: Policy) -> AbstractContextManager[Ask]:
        """Open what `write` has written, to ask one question at a time as a compiler does."""
        ...


PARITY_QUESTIONS = 1000
"""Number of questions where not all are asked."""


def asked_features(policy: Policy) -> tuple[str, ...]:
    """Features that a model is fed."""
    if vocabulary := vocabulary_of(policy.features):
        raise PolicyError(
            f"the policy looks at embeddings (compile.ir2vec: {vocabulary}), which LLVM sends as vectors and no "
            "exported model takes; use it in mlgo compile and mlgo evaluate, or train one without"
        )
    if given := [name for name in policy.features if name in get_task(policy.task).default_features]:
        raise PolicyError(
            f"the policy looks at LLVM's own decision ({given[0]}, compile.tell_heuristic), which no exported model is "
            "told; use it in mlgo compile and mlgo evaluate, or train one without"
        )
    return (*policy.actions.needed, *policy.normalisation.features)


def read_questions(path: Path, policy: Policy) -> pa.Table:
    """Read a trace, on whose questions exported models are compared with the policy."""
    trace = read_table(path)
    check_features(asked_features(policy), trace.column_names, "the trace")
    if not trace.num_rows:
        raise ArtifactError(f"{path} holds no question; parity cannot be shown")
    return trace


def draw_questions(trace: pa.Table, count: int | None, seed: int) -> pa.Table:
    """Draw rows of a trace in their order, by the root seed of the run; all without a count."""
    if count is None or trace.num_rows <= count:
        return trace
    return trace.take(sample(range(trace.num_rows), count, seed, "parity"))


def recorded_questions(trace: pa.Table, policy: Policy) -> dict[str, np.ndarray]:
    """Features of a trace's questions, by name, [num_steps] or [num_steps, num_columns]."""
    return {name: values_of(trace, name) for name in asked_features(policy)}


ASK = Path(__file__).parent / "ask.cpp"
"""Source of the program."""

_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Harness:
    """The program with a model in it."""

    program: Path  # executable
    dtype: np.dtype  # of a decision

    def ask(self, questions: Mapping[str, np.ndarray], repeats: int = 1) -> tuple[np.ndarray, float]:
        """Ask all questions.

        Args:
            questions: by feature, [num_steps] or [num_steps, num_columns].
            repeats: how often all of them, for the time.

        Returns:
            int64 or float32 [num_steps], the decisions; and nanoseconds of processor time for one of them.
        """
        with scratch_directory() as scratch:
            asked, answers = scratch / "questions", scratch / "answers"
            with asked.open("wb") as file:
                file.write(struct.pack("<qq", len(questions), len(next(iter(questions.values())))))
                for name, values in questions.items():
                    word, rows = f"feed_{name}".encode(), np.ascontiguousarray(values)
                    file.write(struct.pack("<qq", len(word), rows[:1].nbytes) + word + rows.tobytes())
            run_tool([str(self.program), str(asked), str(answers), str(self.dtype.itemsize), str(repeats)])
            found = answers.read_bytes()
        return np.frombuffer(found[8:], self.dtype), struct.unpack("<d", found[:8])[0]


@contextmanager
def build_harness(task: Task, command: Sequence[str]) -> Iterator[Harness]:
    """Compile and link the program; it goes at the end of the block."""
    names = [f"-DMODEL={task.model}", f'-DHEADER="{task.model}.h"', f'-DRESULT="fetch_{task.decision}"']
    with scratch_directory() as scratch:
        program = scratch / "ask"
        run_tool([*command, *names, "-o", str(program)])
        yield Harness(program, np.dtype(task.actions.dtype))


def run_tool(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a compiler, a linker or a model to its end."""
    run = run_bounded(command, _TIMEOUT_S, cwd=cwd, env=env or zig_environment(shared_folder() / "zig-cache"))
    if run.returncode is None:
        raise CompileTimeout(f"no end within {_TIMEOUT_S:g} s")
    if run.returncode != 0:
        raise CompilerExit(f"the exported model does not compile or run: {without_folders(run.stderr.strip())[:500]}")
