"""Units under a policy, from no elimination to the stop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.base.seeding import generator
from mlgo.jit.compiler import ChoiceCompiler
from mlgo.jit.outcome import Decisions, Failed, Outcome
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


def play(compiler: ChoiceCompiler, policy: ChoicePolicy, unit: str, decide: Decide) -> ChoiceEpisode:
    """Choose and compile until the stop, or until nothing is left; each choice may change the candidates."""
    stop = policy.observer.max_candidates
    inputs: list[np.ndarray] = []
    actions: list[int] = []
    none = compiler.compile(unit, ())
    if isinstance(none, Failed):
        return _episode(policy, inputs, actions, none)
    choice = Choice.begin(none)
    while policy.observer.can_go_on(choice):
        action = decide(choice)
        inputs.append(_seen(policy, choice))
        actions.append(action)
        if action == stop:
            break
        choice = choice.choosing(action)
        outcome = compiler.compile(unit, choice.chosen)
        if isinstance(outcome, Failed):
            break
        choice = Choice(none, outcome, choice.chosen)
    return _episode(policy, inputs, actions, compiler.compile(unit, choice.chosen))


def _episode(policy: ChoicePolicy, inputs: list[np.ndarray], actions: list[int], outcome: Outcome) -> ChoiceEpisode:
    shape = (-1, policy.observer.max_candidates + 1, policy.observer.num_inputs + 1)
    return ChoiceEpisode(np.array(inputs, np.float32).reshape(shape), np.array(actions, np.int64), outcome)


def _seen(policy: ChoicePolicy, choice: Choice) -> np.ndarray:
    allowed = policy.observer.allowed(choice).astype(np.float32)
    return np.concatenate([policy.observer.columns_of(choice), allowed[:, None]], axis=1)


def greedy(compiler: ChoiceCompiler, unit: str, policy: ChoicePolicy, weights: np.ndarray) -> list[Outcome]:
    """A unit under the best actions by several sets of weights, many of which decide alike."""
    policies = [policy.with_weights(one) for one in weights]
    return [play(compiler, policy, unit, one.decide).outcome for one in policies]


def sampled(
    compiler: ChoiceCompiler, unit: str, policy: ChoicePolicy, num_episodes: int, seed: int, names: Sequence[str | int]
) -> list[ChoiceEpisode]:
    """Episodes with actions drawn with a policy's probabilities."""

    def drawing(number: int) -> Decide:
        rng = generator(seed, *names, unit, number)
        return lambda choice: policy.draw(choice, rng)

    return [play(compiler, policy, unit, drawing(number)) for number in range(num_episodes)]


def demonstrated(
    compiler: ChoiceCompiler,
    unit: str,
    policy: ChoicePolicy,
    choices: Mapping[str, Decisions],
    num_orders: int,
    seed: int,
) -> list[ChoiceEpisode]:
    """Episodes in which the choice given for a unit is made, in random orders, and then stopped."""

    def following(order: Decisions) -> Decide:
        def decide(choice: Choice) -> int:
            free = choice.can_apply()
            left = (position for position in order if position < len(free) and free[position])
            return next(left, policy.observer.max_candidates)

        return decide

    rng = generator(seed, "cse", "orders", unit)
    drawn = [tuple(rng.permutation(choices[unit]).tolist()) for _ in range(num_orders)]
    return [play(compiler, policy, unit, following(order)) for order in dict.fromkeys(drawn)]
