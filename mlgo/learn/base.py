"""What a learner is, and what it gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlgo.core.learners import LearnerInfo


@dataclass(frozen=True)
class Trained:
    """What a training leaves.

    Attributes:
        policy: of the context's kind, see `TrainContext.start`; the driver adds the provenance.
        history: one record per step, oldest first.
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

        Raises:
            MlgoError: it cannot be trained; one line that names the remedy.
        """
        ...
