"""Units under a policy, from no elimination to the stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.problems.subset.compiler import ChoiceCompiler, Compiled, Decisions, Outcome
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.state import Choice

Decide = Callable[[Choice], int]
"""Gives an action: a position, or ``max_candidates`` to stop."""


@dataclass(frozen=True)
class Episode:
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


def play(compiler: ChoiceCompiler, policy: ChoicePolicy, plays: Sequence[tuple[str, Decide]]) -> list[Episode]:
    """Choose until the stop, or until nothing is left to choose.

    The compiler is asked after each choice where that may change its candidates, else only in the end, and then for all
    episodes together.

    Args:
        compiler: compiles the units.
        policy: says what is seen.
        plays: of each episode the unit and what chooses.
    """
    nones = compiler.compile_many([(unit, ()) for unit, _ in plays])
    ways = [_choose(compiler, policy, unit, none, decide) for (unit, decide), none in zip(plays, nones, strict=True)]
    ends = compiler.compile_many([(unit, way.chosen) for (unit, _), way in zip(plays, ways, strict=True)])
    shape = (-1, policy.observer.max_candidates + 1, policy.observer.num_inputs + 1)
    return [
        Episode(np.array(way.inputs, np.float32).reshape(shape), np.array(way.actions, np.int64), end)
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
    if not isinstance(none, Compiled):
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
            if not isinstance(outcome, Compiled) or len(outcome.candidates) > policy.observer.max_candidates:
                break
            choice = Choice(none, outcome.candidates, choice.chosen)
    return _Way(inputs, actions, choice.chosen)


def _seen(policy: ChoicePolicy, choice: Choice) -> np.ndarray:
    allowed = policy.observer.allowed(choice).astype(np.float32)
    return np.concatenate([policy.observer.columns_of(choice), allowed[:, None]], axis=1)
