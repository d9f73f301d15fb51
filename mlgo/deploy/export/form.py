"""The form of an exported policy: files that a compiler takes, and whether they decide as the policy does."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import read_table
from mlgo.base.files import write_atomically
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.seeding import sample
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, CompilerExit, CompileTimeout, PolicyError
from mlgo.host.actions import ActionSpace, check_features
from mlgo.host.process import Child, without_folders
from mlgo.host.tasks.ir2vec import vocabulary_of
from mlgo.host.tasks.task import Task, get_task
from mlgo.host.toolchain import zig_environment
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import values_of

Ask = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Maps questions, by feature [num_steps] or [num_steps, num_columns], to decisions, int64 or float32 [num_steps]."""


class Form(ABC):
    """A form in which policies are exported."""

    name: ClassVar[str]  # of its folder, and of its entry in `parity.json`
    # Recorded questions that are worth asking it, by the time that one takes; None for all.
    max_questions: ClassVar[int | None] = None

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """Write a policy; the same policy gives the same bytes.

        Args:
            trace: recorded questions, at least their columns; has types and shapes of the inputs.
            folder: replaced.
        """
        write_atomically(folder, lambda draft: self.save(policy, trace, draft), is_folder=True)

    @abstractmethod
    def save(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """Write a policy into an empty folder."""

    @abstractmethod
    def opened(self, folder: Path, policy: Policy) -> AbstractContextManager[Ask]:
        """Open what `write` has written, to ask one question at a time as a compiler does."""


class CompiledForm(Form):
    """A form that is linked with the program which asks."""

    @abstractmethod
    def harness(self, folder: Path, policy: Policy) -> AbstractContextManager["Harness"]:
        """The program, which also measures time."""

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[Ask]:
        """Built by the toolchain's own compiler."""
        with self.harness(folder, policy) as harness:
            yield lambda questions: harness.ask(questions)[0]


def row_by_row(answer: Callable[[Mapping[str, np.ndarray]], np.ndarray]) -> Ask:
    """Ask what answers one question at a time, by feature [1] or [1, num_columns]."""

    def ask(questions: Mapping[str, np.ndarray]) -> np.ndarray:
        steps = range(len(next(iter(questions.values()))))
        rows = ({name: values[step : step + 1] for name, values in questions.items()} for step in steps)
        return np.concatenate([answer(row) for row in rows])

    return ask


PARITY_QUESTIONS = 1000
"""Number of questions where not all are asked."""


def asked_features(policy: Policy) -> tuple[str, ...]:
    """Features that a model is fed, each once."""
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
    return tuple(dict.fromkeys((*policy.actions.needed, *policy.features)))


def model_inputs(policy: Policy, trace: pa.Table) -> list[TensorSpec]:
    """Inputs of a model as a trace has them, of shape [1] or [1, num_columns]."""
    columns = recorded_questions(trace.slice(0, 0), policy)
    return [TensorSpec(name, values.dtype, (1, *values.shape[1:])) for name, values in columns.items()]


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


@dataclass(frozen=True)
class Parity:
    """Outcome of a comparison."""

    questions: int  # questions asked of both
    ambiguous: int  # questions with another action as good but for rounding, which the model may choose
    mismatches: int  # decisions that are not the policy's by more than that
    inlined: int | None  # decisions to inline; None for other tasks


_QUESTIONS_AT_ONCE = 1 << 15


def check_form(
    form: Form,
    folder: Path,
    policy: Policy,
    trace: pa.Table,
    progress: Callable[[int], object] = lambda num: None,
    selector: Sequence[int] = (),
) -> Parity:
    """Ask an exported model all questions of a trace, and compare its decisions with the policy's.

    Args:
        folder: what `Form.write` has written.
        trace: questions, see `draw_questions`.
        progress: called with the number of questions that have been asked since the last call.
        selector: of this policy in a class of several, see `cpp.selector`.
    """
    logits, decisions = [], []
    with form.opened(folder, policy) as ask:
        for start in range(0, trace.num_rows, _QUESTIONS_AT_ONCE):
            asked = recorded_questions(trace.slice(start, _QUESTIONS_AT_ONCE), policy)
            logits.append(policy.logits_of(asked))
            if selector:
                asked["model_selector"] = np.tile(np.array(selector, np.uint64), (len(logits[-1]), 1))
            decisions.append(ask(asked))
            progress(len(decisions[-1]))
    try:
        return compare_decisions(policy.actions, np.concatenate(logits), np.concatenate(decisions))
    except PolicyError as error:
        raise PolicyError(f"{form.name}: {error}") from error


def compare_decisions(actions: ActionSpace, logits: np.ndarray, decisions: np.ndarray) -> Parity:
    """Compare an exported model's decisions, int64 or float32 [num_steps], with the policy's.

    ``logits`` are the policy's, float32 [num_steps] or [num_steps, num_actions].
    """
    if not np.isfinite(logits if logits.ndim == 1 else logits.max(axis=1)).all():
        raise PolicyError("the policy's output is not a number; train it again")
    clear, wrong = actions.differing(logits, decisions)
    if not clear.any():
        raise PolicyError("no recorded question has a clear decision; parity cannot be shown")
    if wrong.any():
        raise PolicyError(f"the exported model differs from the policy in {int(wrong.sum())} of {len(wrong)} decisions")
    inlined = int((decisions != 0).sum()) if actions.yes_or_no else None
    return Parity(len(wrong), int((~clear).sum()), 0, inlined)


ASK = Path(__file__).parent / "ask.cpp"
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Harness:
    """The program with a model in it."""

    program: Path  # executable
    dtype: np.dtype  # of a decision

    def ask(self, questions: Mapping[str, np.ndarray], repeats: int = 1) -> tuple[np.ndarray, float]:
        """Ask all questions, by feature [num_steps] or [num_steps, num_columns], one by one, ``repeats`` times.

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
    run = Child(command, cwd=cwd, env=env or zig_environment(shared_folder() / "zig-cache")).finish(_TIMEOUT_S)
    if run.returncode is None:
        raise CompileTimeout(f"no end within {_TIMEOUT_S:g} s")
    if run.returncode != 0:
        raise CompilerExit(f"the exported model does not compile or run: {without_folders(run.stderr.strip())[:500]}")
