"""What is to be found out about a unit."""

from dataclasses import dataclass

import numpy as np

from mlgo.cse.labels import Label, label
from mlgo.cse.policy import ChoicePolicy
from mlgo.cse.problem import CseCompiler, Decisions, Outcome
from mlgo.cse.rollout import Episode, play
from mlgo.cse.state import Choice
from mlgo.seeding import generator


@dataclass(frozen=True)
class CompileJob:
    """Some compiles of a unit.

    Attributes:
        unit: its name.
        choices: of eliminations, see `CseCompiler.compile`.
    """

    unit: str
    choices: tuple[Decisions | None, ...]

    def __call__(self, compiler: CseCompiler) -> list[Outcome]:
        """Outcomes in the order of the choices."""
        return [compiler.compile(self.unit, choice) for choice in self.choices]


@dataclass(frozen=True)
class GreedyJob:
    """A unit under the decisions of several sets of weights: many of them decide alike.

    Attributes:
        unit: its name.
        policy: architecture and what is seen.
        weights: float32 [num_candidates, num_params].
    """

    unit: str
    policy: ChoicePolicy
    weights: np.ndarray

    def __call__(self, compiler: CseCompiler) -> list[Outcome]:
        """Outcomes in the order of the weights."""
        policies = [self.policy.with_weights(one) for one in self.weights]
        return [play(compiler, self.unit, policy, policy.decide).outcome for policy in policies]


@dataclass(frozen=True)
class SampleJob:
    """Episodes of a unit, with actions drawn with a policy's probabilities.

    Attributes:
        unit: its name.
        policy: gives the probabilities.
        episodes: how many.
        seed: root seed.
        names: path of the purpose, see `seeding.generator`.
    """

    unit: str
    policy: ChoicePolicy
    episodes: int
    seed: int
    names: tuple[str | int, ...]

    def __call__(self, compiler: CseCompiler) -> list[Episode]:
        """The episodes."""
        rng = generator(self.seed, *self.names, self.unit)
        return [
            play(compiler, self.unit, self.policy, lambda choice: self.policy.draw(choice, rng))
            for _ in range(self.episodes)
        ]


@dataclass(frozen=True)
class FollowJob:
    """Episodes in which a given choice is made, in random orders, and then stopped: what there is to imitate.

    Attributes:
        unit: its name.
        policy: says what is seen.
        choice: positions to choose.
        orders: episodes.
        seed: root seed of the orders.
    """

    unit: str
    policy: ChoicePolicy
    choice: Decisions
    orders: int
    seed: int

    def __call__(self, compiler: CseCompiler) -> list[Episode]:
        """The episodes; fewer, where the choice has fewer orders."""
        rng = generator(self.seed, "cse", "orders", self.unit)
        drawn = dict.fromkeys(tuple(int(i) for i in rng.permutation(self.choice)) for _ in range(self.orders))
        return [self._follow(compiler, order) for order in drawn]

    def _follow(self, compiler: CseCompiler, order: Decisions) -> Episode:
        def decide(choice: Choice) -> int:
            free = choice.can_apply()
            left = [position for position in order if position < len(free) and free[position]]
            return left[0] if left else self.policy.observer.max_candidates

        return play(compiler, self.unit, self.policy, decide)


@dataclass(frozen=True)
class LabelJob:
    """The best choice for a unit; see `labels.label`.

    Attributes:
        unit: its name.
        max_exhaustive: most viable candidates of which all subsets are tried.
        max_trials: most compiles of a hill climb.
        seed: root seed.
    """

    unit: str
    max_exhaustive: int
    max_trials: int
    seed: int

    def __call__(self, compiler: CseCompiler) -> Label | None:
        """The label, None if the unit does not compile."""
        return label(
            compiler, self.unit, self.max_exhaustive, self.max_trials, generator(self.seed, "cse", "label", self.unit)
        )
