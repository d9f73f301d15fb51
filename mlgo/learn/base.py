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
        credit: functions of the decisions and their sizes, where they were asked for.
        function: symbol, where functions are judged separately; else empty.
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
    """A compile under answers drawn with a policy's probabilities: the module as a whole, or its functions."""

    reward: float
    episodes: tuple[Trajectory, ...]


@dataclass(frozen=True)
class State:
    """Where a training stands; learners add what they need to go on after a stop."""

    # Weights, or a search point, with the highest reward on the validation instances; of equals the earlier.
    best: np.ndarray
    best_reward: float  # that reward; -inf before the first validation
    # One record per step, oldest first, beginning with the start. `evaluations` counts compiles.
    history: tuple[dict[str, Any], ...]

    @property
    def done(self) -> int:
        """Steps done."""
        return len(self.history) - 1

    def validated(self, candidate: np.ndarray, rewards: np.ndarray) -> Self:
        """Note what the last step has led to, and keep it where it beats all before.

        Args:
            candidate: as `best`.
            rewards: of the candidate on the validation instances, float64 [num], weighted; a compile each.
        """
        *before, last = self.history
        reward = float(rewards.mean())
        last = {**last, "evaluations": last["evaluations"] + len(rewards), "validation_reward": reward}
        return replace(self, history=(*before, last)).with_better(candidate, reward)

    def with_better(self, candidate: np.ndarray, reward: float) -> Self:
        """This state; its `best` is the candidate, of the same shape, where that beats all before."""
        return replace(self, best=candidate, best_reward=reward) if reward > self.best_reward else self


AnyState = TypeVar("AnyState", bound=State)


def run_steps(
    state: AnyState,
    total: int,
    step: Callable[[AnyState], AnyState],
    after: Callable[[AnyState], None],
    validated: Callable[[AnyState], AnyState] = lambda state: state,
    validate_every: int = 1,
) -> AnyState:
    """Do steps until there are so many in all; validate after every few of them, and after the last.

    Args:
        after: called with each new state, for checkpoints and logs.
        validated: validates a state, see `State.validated`; left out where steps validate.
    """
    while state.done < total:
        state = step(state)
        if state.done % validate_every == 0 or state.done == total:
            state = validated(state)
        after(state)
    return state


Validate = Callable[[np.ndarray], np.ndarray]
"""Rewards of weights, float32 [num_params] or [num_members, num_params], on the validation instances: float64 [num]."""

Compiled = TypeVar("Compiled")


def successful(asked: Sequence[Compiled | None], learner: str, step: str) -> list[Compiled]:
    """The compiles of a step that went well; `NothingCompiled` if there is none."""
    found = [one for one in asked if one is not None]
    if not asked:
        raise NothingCompiled(f"no training module is left to compile; raise {learner}.quarantine_after")
    if not found:
        raise NothingCompiled(
            f"all {len(asked)} compiles of {step} failed; raise compile.compile_timeout_s or compile.max_memory_gb"
        )
    return found


Fitted = tuple[np.ndarray, dict[str, float]]
"""What a fit of a network gives: weights, float32 [num_params], and figures for the record of the step."""


@dataclass(frozen=True)
class Trained:
    """What a training leaves; ``facts`` of the provenance are those that are known only now, as plain JSON values."""

    policy: Any
    history: Sequence[dict[str, Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Functions:
    """Functions of several compiles of one module: how large each is, and what its disappearance saves.

    A function that no compile's object has tells nothing. One that the optimizer has renamed or split off
    (``f.llvm.123``, ``f.part.0``) has a name, and so a column, of its own.
    """

    # Arrays of [num_compiles, num_functions].
    sizes: np.ndarray  # float64, bytes; -1 where the object does not have the function
    present: np.ndarray  # bool, where it has
    gone: np.ndarray  # float64, minus the mean of the function's known sizes where it is gone, else 0
    asked: np.ndarray  # bool, where it is known whether the function is gone
    # Columns of the functions of each call, int64 [num_questions] by number of the compile that tells its functions.
    callers: Mapping[int, np.ndarray]
    callees: Mapping[int, np.ndarray]


def side_by_side(compiles: Sequence[CallAttribution | None]) -> Functions:
    """Join the functions of compiles of one module; None for a compile that does not tell them."""
    known = {number: one for number, one in enumerate(compiles) if one is not None}
    names = np.unique(np.concatenate([np.zeros(0, np.uint64), *(one.names for one in known.values())]))
    columns = {number: np.searchsorted(names, one.names) for number, one in known.items()}
    sizes = np.full((len(compiles), len(names)), -1.0)
    for number, one in known.items():
        sizes[number, columns[number]] = one.sizes
    present = sizes >= 0
    num_present = present.sum(axis=0)
    mean = np.where(present, sizes, 0).sum(axis=0) / np.maximum(num_present, 1)
    return Functions(
        sizes,
        present,
        np.where(present, 0.0, -mean),
        (num_present > 0) & np.isin(np.arange(len(compiles)), list(known))[:, None],
        {number: columns[number][one.callers] for number, one in known.items()},
        {number: columns[number][one.callees] for number, one in known.items()},
    )
