"""What a learner is, where its training stands, and what it gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from mlgo.base.registry import LearnerInfo
from mlgo.host.session import CallAttribution


@dataclass(frozen=True)
class Sampled:
    """An episode whose answers were drawn with the probabilities of the policy.

    Attributes:
        subject: key of the module, with the function where each function is an episode of its own.
        inputs: float16 or float32 [num_questions, ...], see `Policy.inputs_for`.
        answers: uint8 [num_questions].
        credit: functions of the decisions and their sizes, where they were asked for.
    """

    subject: str
    inputs: np.ndarray
    answers: np.ndarray
    reward: float
    credit: CallAttribution | None = None


@dataclass(frozen=True)
class SampledCompile:
    """A compile under such answers.

    Attributes:
        episodes: the module as a whole, or its functions that were asked about.
    """

    reward: float
    episodes: tuple[Sampled, ...]


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


@dataclass(frozen=True)
class Trained:
    """What a training leaves.

    Attributes:
        policy: of the context's kind, see `TrainContext.start`; the driver adds the provenance.
        facts: of the provenance, those that are known only now, as plain JSON values.
    """

    policy: Any
    history: Sequence[dict[str, Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


class Learner(LearnerInfo, Protocol):
    """Something that trains policies; see `LearnerInfo` for what it tells of itself."""

    def train(self, context: Any) -> Trained:
        """Train one policy.

        Args:
            context: a `mlgo.learn.context.TrainContext` of a kind that is among ``sections``.
        """
        ...
