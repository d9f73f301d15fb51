"""A unit under a policy, from no elimination to the stop."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlgo.cse.policy import ChoicePolicy
from mlgo.cse.problem import Compiled, CseCompiler, Outcome
from mlgo.cse.state import Choice

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


def play(compiler: CseCompiler, unit: str, policy: ChoicePolicy, decide: Decide) -> Episode:
    """Choose until the stop, or until nothing is left to choose.

    The compiler is asked after each choice where that may change its candidates, else only in the end.

    Args:
        compiler: compiles the unit.
        unit: its name.
        policy: says what is seen.
        decide: chooses.
    """
    none = compiler.compile(unit, ())
    inputs: list[np.ndarray] = []
    actions: list[int] = []
    outcome = none
    observer = policy.observer
    if isinstance(none, Compiled):
        choice = Choice(none, none.candidates)
        while choice.can_apply().any():
            action = decide(choice)
            inputs.append(_seen(policy, choice))
            actions.append(action)
            if action == observer.max_candidates:
                break
            choice = choice.choosing(action)
            if compiler.static:
                continue
            outcome = compiler.compile(unit, choice.chosen)
            if not isinstance(outcome, Compiled):
                break
            choice = Choice(none, outcome.candidates, choice.chosen)
        if compiler.static:
            outcome = compiler.compile(unit, choice.chosen)
    shape = (len(inputs), observer.max_candidates + 1, observer.num_inputs + 1)
    return Episode(np.array(inputs, np.float32).reshape(shape), np.array(actions, np.int64), outcome)


def _seen(policy: ChoicePolicy, choice: Choice) -> np.ndarray:
    allowed = policy.observer.allowed(choice).astype(np.float32)
    return np.concatenate([policy.observer.columns_of(choice), allowed[:, None]], axis=1)
