"""A trained policy: one network that scores every action alike, and takes the best allowed; and units under it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.errors import PolicyError
from mlgo.host.actions import Subset
from mlgo.jit.compiler import ChoiceCompiler
from mlgo.jit.outcome import Decisions, Failed, Outcome
from mlgo.jit.state import SUBSET, Choice, FeatureColumn, Observer
from mlgo.policy.network import Architecture, logits
from mlgo.policy.stored import decode_architecture, load_model, save_model

_FORMAT = 1
_KIND = "choice until stop"


@dataclass(frozen=True)
class ChoicePolicy:
    """Scores candidates and stopping by a perceptron; takes the largest output, of equal ones the first."""

    task: str  # decision problem it was trained for
    observer: Observer  # what it sees
    architecture: Architecture  # layer widths
    weights: np.ndarray  # float32 [num_params]
    origin: dict[str, Any] = field(default_factory=dict)  # provenance

    @staticmethod
    def fresh(task: str, observer: Observer, hidden: list[int], rng: np.random.Generator) -> "ChoicePolicy":
        """A policy that finds all actions equal, see `Architecture.fresh`."""
        architecture = Architecture((observer.num_inputs, *hidden, 1))
        return ChoicePolicy(task, observer, architecture, architecture.fresh(rng))

    def with_weights(self, weights: np.ndarray) -> "ChoicePolicy":
        """The same policy with other weights, float32 [num_params]."""
        return replace(self, weights=weights.astype(np.float32))

    @property
    def actions(self) -> Subset:
        """What it chooses from."""
        return SUBSET

    @property
    def num_inputs(self) -> int:
        """Inputs of a network for what is seen."""
        return self.observer.num_inputs

    def logits(self, choice: Choice) -> np.ndarray:
        """Outputs for all actions, float32 [max_candidates + 1]; minus infinity where one is not allowed."""
        outputs = logits(self.architecture.unflatten(self.weights), self.observer.columns_of(choice))
        return np.where(self.observer.allowed(choice), outputs, np.float32(-np.inf))

    def decide(self, choice: Choice) -> int:
        """The best action: a position, or ``observer.max_candidates`` to stop."""
        return int(SUBSET.greedy(np, self.logits(choice)))

    def draw(self, choice: Choice, rng: np.random.Generator) -> int:
        """An action drawn with the probabilities ``softmax(logits)``."""
        return SUBSET.sample(self.logits(choice), rng)


def save_choice_policy(policy: ChoicePolicy, folder: Path) -> None:
    """Write a policy; the same one gives the same bytes."""
    record = {
        "format": _FORMAT,
        "kind": _KIND,
        "task": policy.task,
        "widths": list(policy.architecture.widths),
        "max_candidates": policy.observer.max_candidates,
        "columns": [asdict(column) for column in policy.observer.columns],
        "provenance": policy.origin,
    }
    save_model(policy.weights, record, folder)


def load_choice_policy(folder: Path) -> ChoicePolicy:
    """Read a policy."""
    return load_model(folder, _decode)


def _decode(folder: Path, record: dict[str, Any], weights: np.ndarray) -> ChoicePolicy:
    if (record["kind"], record["format"]) != (_KIND, _FORMAT):
        raise PolicyError(f"{folder} holds {record['kind']}, format {record['format']}; this needs {_KIND}, {_FORMAT}")
    observer = Observer(tuple(FeatureColumn(**column) for column in record["columns"]), int(record["max_candidates"]))
    return ChoicePolicy(record["task"], observer, decode_architecture(folder, record), weights, record["provenance"])


Decide = Callable[[Choice], int]
"""Gives an action: a position, or ``max_candidates`` to stop."""


@dataclass(frozen=True)
class ChoiceEpisode:
    """What was seen and chosen on the way, and how the unit came out."""

    # float32 [num_steps, max_candidates + 1, num_inputs + 1], see `Observer.columns_of`; the last input tells whether
    # the action was allowed.
    inputs: np.ndarray
    actions: np.ndarray  # int64 [num_steps]
    outcome: Outcome  # compiled with all that was chosen


def play(compiler: ChoiceCompiler, policy: ChoicePolicy, unit: str, decide: Decide) -> ChoiceEpisode:
    """Choose and compile until the stop, or until nothing is left; each choice may change the candidates."""
    stop = policy.observer.max_candidates
    inputs: list[np.ndarray] = []
    actions: list[int] = []
    none = compiler.outcome(unit, ())
    if isinstance(none, Failed):
        return _episode(policy, inputs, actions, none)
    choice = Choice(none, none)
    while policy.observer.can_go_on(choice):
        action = decide(choice)
        allowed = policy.observer.allowed(choice).astype(np.float32)
        inputs.append(np.concatenate([policy.observer.columns_of(choice), allowed[:, None]], axis=1))
        actions.append(action)
        if action == stop:
            break
        choice = choice.choosing(action)
        outcome = compiler.outcome(unit, choice.chosen)
        if isinstance(outcome, Failed):
            break
        choice = Choice(none, outcome, choice.chosen)
    return _episode(policy, inputs, actions, compiler.outcome(unit, choice.chosen))


def _episode(policy: ChoicePolicy, inputs: list[np.ndarray], actions: list[int], outcome: Outcome) -> ChoiceEpisode:
    shape = (-1, policy.observer.max_candidates + 1, policy.observer.num_inputs + 1)
    return ChoiceEpisode(np.array(inputs, np.float32).reshape(shape), np.array(actions, np.int64), outcome)


def greedy(compiler: ChoiceCompiler, unit: str, policy: ChoicePolicy, weights: np.ndarray) -> list[Outcome]:
    """A unit under the best actions by several sets of weights, many of which decide alike."""
    policies = [policy.with_weights(one) for one in weights]
    return [play(compiler, policy, unit, one.decide).outcome for one in policies]


def sampled(
    compiler: ChoiceCompiler, unit: str, policy: ChoicePolicy, num_episodes: int, seed: int, names: Sequence[str | int]
) -> list[ChoiceEpisode]:
    """Episodes with actions drawn with a policy's probabilities."""
    rngs = (generator(seed, *names, unit, number) for number in range(num_episodes))
    return [play(compiler, policy, unit, partial(policy.draw, rng=rng)) for rng in rngs]


def demonstrated(
    compiler: ChoiceCompiler,
    unit: str,
    policy: ChoicePolicy,
    choices: Mapping[str, Decisions],
    num_orders: int,
    seed: int,
) -> list[ChoiceEpisode]:
    """Episodes in which the choice given for a unit is made, in random orders, and then stopped."""

    def follow(order: Decisions, choice: Choice) -> int:
        free = choice.can_apply()
        left = (position for position in order if position < len(free) and free[position])
        return next(left, policy.observer.max_candidates)

    rng = generator(seed, "cse", "orders", unit)
    drawn = [tuple(rng.permutation(choices[unit]).tolist()) for _ in range(num_orders)]
    return [play(compiler, policy, unit, partial(follow, order)) for order in dict.fromkeys(drawn)]
