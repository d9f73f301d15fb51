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
