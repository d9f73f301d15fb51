"""What an agent is told about its choices."""

from dataclasses import dataclass
from typing import ClassVar


class ChoiceReward:
    """A way to reward choices, here with nothing; scores are what is to be small.

    Attributes:
        name: for tables and provenance.
        each_step: whether the unit has to be compiled after each choice.
    """

    name: ClassVar[str]
    each_step: ClassVar[bool]

    def of_choice(self, before: float, after: float) -> float:
        """Reward of one more elimination, by the scores before and after it."""
        return 0.0

    def at_the_end(self, score: float, heuristic: float, none: float, num_chosen: int) -> float:
        """Reward of stopping."""
        return 0.0


@dataclass(frozen=True)
class StepChange(ChoiceReward):
    """The relative change of the score with each choice, as in the first such environment (leculver/jitml).

    Attributes:
        scale: ``reward = scale * (before - after) / before``.
    """

    scale: float = 5.0
    name: ClassVar[str] = "step"
    each_step: ClassVar[bool] = True

    def of_choice(self, before: float, after: float) -> float:
        """See the class; 0 where the score before was."""
        return self.scale * (before - after) / before if before else 0.0


@dataclass(frozen=True)
class EndGain(ChoiceReward):
    """All at the end: the relative gain over the built-in heuristic.

    Attributes:
        scale: ``reward = scale * (heuristic - score) / heuristic``.
        loss_weight: losses count this many times.
        no_improvement: added where something was chosen, and the score is no better than with nothing chosen: for
            agents that should rather stop at once than waste eliminations.
    """

    scale: float = 1.0
    loss_weight: float = 1.0
    no_improvement: float = 0.0
    name: ClassVar[str] = "end"
    each_step: ClassVar[bool] = False

    def at_the_end(self, score: float, heuristic: float, none: float, num_chosen: int) -> float:
        """See the class; 0 where the heuristic's score is."""
        gain = self.scale * (heuristic - score) / heuristic if heuristic else 0.0
        wasted = self.no_improvement if num_chosen and score >= none else 0.0
        return (gain if gain >= 0.0 else self.loss_weight * gain) + wasted
