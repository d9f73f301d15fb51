"""What a learner works with: trajectories of compiles, the state of a training, its loop, and what it leaves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from mlgo.errors import NothingCompiled
from mlgo.host.session import CallAttribution


@dataclass(frozen=True)
class Trajectory:
    """Questions and answers of one compile, or of one of its functions, and what they were worth.

    Attributes:
        module: its key.
        inputs: float16 or float32 [num_questions, ...], see `Policy.inputs_for`.
        answers: uint8 or float32 [num_questions].
        reward: relative reward, see `Episode.reward`.
        credit: functions of the decisions and their sizes, where they were asked for.
        function: symbol, where each function is judged by itself; else empty.
        source: what the answers come from.
    """

    module: str
    inputs: np.ndarray
    answers: np.ndarray
    reward: float
    credit: CallAttribution | None = None
    function: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """What it is a trajectory of."""
        return f"{self.module} {self.function}" if self.function else self.module


@dataclass(frozen=True)
class SampledCompile:
    """A compile under answers that were drawn with a policy's probabilities.

    Attributes:
        episodes: the module as a whole, or its functions that were asked about.
    """

    reward: float
    episodes: tuple[Trajectory, ...]


@dataclass(frozen=True)
class State:
    """Where a training stands; learners add what they need to go on after a stop.

    Attributes:
        best: weights, or a search point, with the highest reward on the validation instances; of equals the earlier.
        best_reward: that reward; -inf before the first validation.
        history: one record per step, oldest first, beginning with the start. ``evaluations`` counts compiles.
    """

    best: np.ndarray
    best_reward: float
    history: tuple[dict[str, Any], ...]

    @property
    def done(self) -> int:
        """Steps done."""
        return len(self.history) - 1

    def validated(self, candidate: np.ndarray, reward: float, num_compiles: int = 0) -> Self:
        """Note what the last step has led to, and keep it where it beats all before.

        Args:
            candidate: as `best`.
            reward: of the candidate, on the validation instances.
            num_compiles: what the validation took.
        """
        *before, last = self.history
        last = {**last, "evaluations": last["evaluations"] + num_compiles, "validation_reward": reward}
        state = replace(self, history=(*before, last))
        return replace(state, best=candidate, best_reward=reward) if reward > self.best_reward else state


AnyState = TypeVar("AnyState", bound=State)


def run_steps(
    state: AnyState,
    total: int,
    step: Callable[[AnyState], AnyState],
    after: Callable[[AnyState], None],
    validated: Callable[[AnyState], AnyState] = lambda state: state,
    validate_every: int = 1,
) -> AnyState:
    """Do steps until there are so many; validate after every few of them, and after the last.

    Args:
        state: where to begin, or to go on.
        total: steps in all.
        step: makes the next state.
        after: called with each new state, for checkpoints and logs.
        validated: validates a state, see `State.validated`; left out where steps validate.
        validate_every: steps between two validations.
    """
    while state.done < total:
        state = step(state)
        if state.done % validate_every == 0 or state.done == total:
            state = validated(state)
        after(state)
    return state


Compiled = TypeVar("Compiled")


def successful(asked: Sequence[Compiled | None], learner: str, step: str) -> list[Compiled]:
    """The compiles of a step that went well.

    Raises:
        NothingCompiled: none did, or none was left to be asked for.
    """
    found = [one for one in asked if one is not None]
    if not asked:
        raise NothingCompiled(f"no training module is left to compile; raise {learner}.quarantine_after")
    if not found:
        raise NothingCompiled(
            f"all {len(asked)} compiles of {step} failed; raise compile.compile_timeout_s or compile.max_memory_gb"
        )
    return found


@dataclass(frozen=True)
class Trained:
    """What a training leaves.

    Attributes:
        policy: of the context's kind, see `TrainContext.start`; the context adds the provenance.
        facts: of the provenance, those that are known only now, as plain JSON values.
    """

    policy: Any
    history: Sequence[dict[str, Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Functions:
    """What compiles of one module tell of its functions.

    A function that no compile's object has tells nothing. One that the optimizer has renamed or split off
    (``f.llvm.123``, ``f.part.0``) has a name, and so a column, of its own.

    Attributes:
        sizes: float64 [num_compiles, num_functions], bytes; -1 where the object does not have the function.
        present: bool [num_compiles, num_functions], where it has.
        gone: float64 [num_compiles, num_functions], minus the mean of the function's known sizes where it is gone,
            else 0.
        asked: bool [num_compiles, num_functions], where it is known whether the function is gone.
        callers: column of the function that has the call, int64 [num_questions] for each compile that tells.
    """

    sizes: np.ndarray
    present: np.ndarray
    gone: np.ndarray
    asked: np.ndarray
    callers: tuple[np.ndarray | None, ...]
    callees: tuple[np.ndarray | None, ...]


def side_by_side(told: Sequence[CallAttribution | None]) -> Functions:
    """Join what the compiles of one module tell; None is a compile that tells nothing."""
    names = np.unique(np.concatenate([np.zeros(0, np.uint64), *(one.names for one in told if one is not None)]))
    places = [None if one is None else np.searchsorted(names, one.names) for one in told]
    sizes = np.full((len(told), len(names)), -1.0)
    for row, one, columns in zip(sizes, told, places, strict=True):
        if one is not None:
            row[columns] = one.sizes
    present = sizes >= 0
    num_present = present.sum(axis=0)
    mean = np.where(present, sizes, 0).sum(axis=0) / np.maximum(num_present, 1)
    pairs = list(zip(told, places, strict=True))
    return Functions(
        sizes,
        present,
        np.where(present, 0.0, -mean),
        (num_present > 0) & np.array([one is not None for one in told], bool)[:, None],
        tuple(None if one is None or columns is None else columns[one.callers] for one, columns in pairs),
        tuple(None if one is None or columns is None else columns[one.callees] for one, columns in pairs),
    )
