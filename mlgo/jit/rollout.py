"""Units under a policy, from no elimination to the stop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.base.seeding import generator
from mlgo.jit.compiler import ChoiceCompiler, CompiledUnit, Decisions, Outcome
from mlgo.jit.policy import ChoicePolicy
from mlgo.jit.state import Choice

Decide = Callable[[Choice], int]
"""Gives an action: a position, or ``max_candidates`` to stop."""


@dataclass(frozen=True)
class ChoiceEpisode:
    """What was seen and chosen on the way, and how the unit came out.

    Attributes:
        inputs: float32 [num_steps, max_candidates + 1, num_inputs + 1], see `Observer.columns_of`; the last input tells
            whether the action was allowed.
        actions: int64 [num_steps].
        outcome: compiled with all that was chosen.
    """

    inputs: np.ndarray
    actions: np.ndarray
    outcome: Outcome


def play(compiler: ChoiceCompiler, policy: ChoicePolicy, plays: Sequence[tuple[str, Decide]]) -> list[ChoiceEpisode]:
    """Choose until the stop, or until nothing is left to choose.

    The compiler is asked after each choice where that may change its candidates, else only in the end, and then for all
    episodes together.
    """
    nones = compiler.compile_many([(unit, ()) for unit, _ in plays])
    ways = [_choose(compiler, policy, unit, none, decide) for (unit, decide), none in zip(plays, nones, strict=True)]
    ends = compiler.compile_many([(unit, way.chosen) for (unit, _), way in zip(plays, ways, strict=True)])
    shape = (-1, policy.observer.max_candidates + 1, policy.observer.num_inputs + 1)
    return [
        ChoiceEpisode(np.array(way.inputs, np.float32).reshape(shape), np.array(way.actions, np.int64), end)
        for way, end in zip(ways, ends, strict=True)
    ]


@dataclass(frozen=True)
class _Way:
    inputs: list[np.ndarray]
    actions: list[int]
    chosen: Decisions


def _choose(compiler: ChoiceCompiler, policy: ChoicePolicy, unit: str, none: Outcome, decide: Decide) -> _Way:
    inputs: list[np.ndarray] = []
    actions: list[int] = []
    if not isinstance(none, CompiledUnit):
        return _Way(inputs, actions, ())
    choice = Choice(none, none.candidates)
    while choice.can_apply().any():
        action = decide(choice)
        inputs.append(_seen(policy, choice))
        actions.append(action)
        if action == policy.observer.max_candidates:
            break
        choice = choice.choosing(action)
        if not compiler.static:
            outcome = compiler.compile(unit, choice.chosen)
            if not isinstance(outcome, CompiledUnit) or len(outcome.candidates) > policy.observer.max_candidates:
                break
            choice = Choice(none, outcome.candidates, choice.chosen)
    return _Way(inputs, actions, choice.chosen)


def _seen(policy: ChoicePolicy, choice: Choice) -> np.ndarray:
    allowed = policy.observer.allowed(choice).astype(np.float32)
    return np.concatenate([policy.observer.columns_of(choice), allowed[:, None]], axis=1)


def greedy(
    compiler: ChoiceCompiler, units: Sequence[str], policy: ChoicePolicy, weights: np.ndarray
) -> list[list[Outcome]]:
    """Units under the best actions by several sets of weights, many of which decide alike.

    Returns:
        Of each unit, outcomes in the order of the weights.
    """
    policies = [policy.with_weights(one) for one in weights]
    episodes = iter(play(compiler, policy, [(unit, one.decide) for unit in units for one in policies]))
    return [[next(episodes).outcome for _ in policies] for _ in units]


def sampled(
    compiler: ChoiceCompiler,
    units: Sequence[str],
    policy: ChoicePolicy,
    num_episodes: int,
    seed: int,
    names: Sequence[str | int],
) -> list[list[ChoiceEpisode]]:
    """Episodes of each unit with actions drawn with a policy's probabilities."""

    def drawing(unit: str, number: int) -> Decide:
        rng = generator(seed, *names, unit, number)
        return lambda choice: policy.draw(choice, rng)

    plays = [(unit, drawing(unit, number)) for unit in units for number in range(num_episodes)]
    episodes = iter(play(compiler, policy, plays))
    return [[next(episodes) for _ in range(num_episodes)] for _ in units]


def demonstrated(
    compiler: ChoiceCompiler,
    units: Sequence[str],
    policy: ChoicePolicy,
    choices: Mapping[str, Decisions],
    num_orders: int,
    seed: int,
) -> list[list[ChoiceEpisode]]:
    """Episodes of each unit in which given choices are made, in random orders, and then stopped."""

    def orders(unit: str) -> list[Decisions]:
        rng = generator(seed, "cse", "orders", unit)
        drawn = (rng.permutation(choices[unit]) for _ in range(num_orders))
        return list(dict.fromkeys(tuple(int(position) for position in order) for order in drawn))

    def following(order: Decisions) -> Decide:
        def decide(choice: Choice) -> int:
            free = choice.can_apply()
            left = (position for position in order if position < len(free) and free[position])
            return next(left, policy.observer.max_candidates)

        return decide

    of_units = [orders(unit) for unit in units]
    plays = [(unit, following(order)) for unit, each in zip(units, of_units, strict=True) for order in each]
    episodes = iter(play(compiler, policy, plays))
    return [[next(episodes) for _ in each] for each in of_units]
