"""What is to be found out about the units of a batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.core.seeding import generator
from mlgo.problems.subset.compiler import ChoiceCompiler, Decisions, Outcome
from mlgo.problems.subset.enumeration import Found
from mlgo.problems.subset.labels import Label, find_labels
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.rollout import Decide, Episode, play
from mlgo.problems.subset.state import Choice

Units = tuple[str, ...]
"""Names of units that share compiles."""


@dataclass(frozen=True)
class BaselineJob:
    """Units without elimination, and under the built-in heuristic.

    Attributes:
        units: their names.
    """

    units: Units

    def __call__(self, compiler: ChoiceCompiler) -> list[tuple[Outcome, Outcome]]:
        """Both outcomes of each unit."""
        found = compiler.compile_many([(unit, way) for unit in self.units for way in ((), None)])
        return list(zip(found[::2], found[1::2], strict=True))


@dataclass(frozen=True)
class FindJob:
    """The units of batches, and how they come out without elimination and under the built-in heuristic.

    Attributes:
        units: names of batches; their units are to be found.
    """

    units: Units

    def __call__(self, compiler: ChoiceCompiler) -> list[list[Found]]:
        """Units of each batch."""
        found = [compiler.units(batch) for batch in self.units]
        baselines = iter(BaselineJob(tuple(unit.name for units in found for unit in units))(compiler))
        return [[Found(unit, *next(baselines)) for unit in units] for units in found]


@dataclass(frozen=True)
class GreedyJob:
    """Units under the decisions of several sets of weights: many of them decide alike.

    Attributes:
        units: their names.
        policy: architecture and what is seen.
        weights: float32 [num_candidates, num_params].
    """

    units: Units
    policy: ChoicePolicy
    weights: np.ndarray

    def __call__(self, compiler: ChoiceCompiler) -> list[list[Outcome]]:
        """Of each unit, outcomes in the order of the weights."""
        policies = [self.policy.with_weights(one) for one in self.weights]
        plays = [(unit, policy.decide) for unit in self.units for policy in policies]
        outcomes = [one.outcome for one in play(compiler, self.policy, plays)]
        return _by_unit(outcomes, len(policies))


@dataclass(frozen=True)
class SampleJob:
    """Episodes with actions drawn with a policy's probabilities.

    Attributes:
        units: their names.
        policy: gives the probabilities.
        episodes: of each unit.
        seed: root seed.
        names: path of the purpose, see `seeding.generator`.
    """

    units: Units
    policy: ChoicePolicy
    episodes: int
    seed: int
    names: tuple[str | int, ...]

    def __call__(self, compiler: ChoiceCompiler) -> list[list[Episode]]:
        """The episodes of each unit."""
        plays = [(unit, self._drawing(unit, number)) for unit in self.units for number in range(self.episodes)]
        return _by_unit(play(compiler, self.policy, plays), self.episodes)

    def _drawing(self, unit: str, number: int) -> Decide:
        rng = generator(self.seed, *self.names, unit, number)
        return lambda choice: self.policy.draw(choice, rng)


@dataclass(frozen=True)
class FollowJob:
    """Episodes in which given choices are made, in random orders, and then stopped: what there is to imitate.

    Attributes:
        units: their names.
        policy: says what is seen.
        choices: positions to choose in each unit.
        orders: episodes of each unit, fewer where its choice has fewer orders.
        seed: root seed of the orders.
    """

    units: Units
    policy: ChoicePolicy
    choices: tuple[Decisions, ...]
    orders: int
    seed: int

    def __call__(self, compiler: ChoiceCompiler) -> list[list[Episode]]:
        """The episodes of each unit."""
        orders = [self._orders(unit, choice) for unit, choice in zip(self.units, self.choices, strict=True)]
        plays = [
            (unit, self._following(order)) for unit, each in zip(self.units, orders, strict=True) for order in each
        ]
        episodes = iter(play(compiler, self.policy, plays))
        return [[next(episodes) for _ in each] for each in orders]

    def _orders(self, unit: str, choice: Decisions) -> list[Decisions]:
        rng = generator(self.seed, "cse", "orders", unit)
        return list(dict.fromkeys(tuple(int(i) for i in rng.permutation(choice)) for _ in range(self.orders)))

    def _following(self, order: Decisions) -> Decide:
        def decide(choice: Choice) -> int:
            free = choice.can_apply()
            left = [position for position in order if position < len(free) and free[position]]
            return left[0] if left else self.policy.observer.max_candidates

        return decide


@dataclass(frozen=True)
class LabelJob:
    """The best choice for each unit; see `labels.find_labels`.

    Attributes:
        units: their names.
        max_exhaustive: most viable candidates of which all subsets are tried.
        max_trials: most choices that a hill climb tries.
        seed: root seed.
    """

    units: Units
    max_exhaustive: int
    max_trials: int
    seed: int

    def __call__(self, compiler: ChoiceCompiler) -> list[Label | None]:
        """The label of each unit, None where it does not compile."""
        return find_labels(compiler, self.units, self.max_exhaustive, self.max_trials, self.seed)


def _by_unit(values: list[Any], each: int) -> list[list[Any]]:
    return [values[start : start + each] for start in range(0, len(values), each)]
