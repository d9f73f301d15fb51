"""How an agent is rewarded for its answers. Whatever the way, the best policy is the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mlgo.envs.episode import Observation
from mlgo.errors import PolicyError
from mlgo.host import actions
from mlgo.policy.policy import Policy


class Reward:
    """A way to reward answers; by itself nothing but the relative gain over the heuristic, at the end."""

    name: ClassVar[str]

    def of_answer(
        self, observation: Observation, answer: float, following: Observation | None, baseline: float
    ) -> float:
        """Reward of one answer."""
        return 0.0

    def at_the_end(self, gain: float, given: float) -> float:
        """Reward on top of that of the last answer."""
        return gain


@dataclass(frozen=True)
class EndGain(Reward):
    """All at the end: the relative gain over the heuristic."""

    name: ClassVar[str] = "end"


@dataclass(frozen=True)
class MarginalShare(Reward):
    """Each call that is inlined earns what a policy of marginal costs expects it to save; the end sets that right.

    The output of a linear or deep policy of learner ``marginal`` is what inlining saves, in units of
    ``marginal.unit_bytes`` (see docs/learners.md); so their sum over a compile is an estimate of the gain. The rewards
    of an episode add up to the gain itself.

    Attributes:
        policy: trained by ``marginal``.
    """

    policy: Policy
    unit_bytes: float
    name: ClassVar[str] = "marginal"

    def __post_init__(self) -> None:
        if not self.policy.actions.yes_or_no:
            raise PolicyError("shares by marginal costs need a policy that answers yes or no, of learner marginal")

    def of_answer(
        self, observation: Observation, answer: float, following: Observation | None, baseline: float
    ) -> float:
        """Expected saving of an inlined call, over the module's size under the heuristic; 0 where that is 0."""
        if not answer or not baseline:
            return 0.0
        raw = np.array([[observation[name].item() for name in self.policy.normalisation.features]])
        return float(self.policy.logits(actions.Observation(raw))[0]) * self.unit_bytes / baseline

    def at_the_end(self, gain: float, given: float) -> float:
        """What the estimates have left out."""
        return gain - given


@dataclass(frozen=True)
class Shaped(Reward):
    """The gain at the end, and on the way the rise of a potential.

    Ng, Harada and Russell 1999, "Policy invariance under reward transformations": ``discount * potential(next) -
    potential(this)`` leaves the best policy as it is. The potential after the end is 0, so undiscounted rewards add
    up to the gain less the potential of the first question.
    """

    potential: Callable[[Mapping[str, np.ndarray]], float]
    discount: float = 1.0
    name: ClassVar[str] = "shaped"

    def of_answer(
        self, observation: Observation, answer: float, following: Observation | None, baseline: float
    ) -> float:
        after = self.potential(following) if following is not None else 0.0
        return self.discount * after - self.potential(observation)
