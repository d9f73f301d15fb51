"""A trained policy: one network that scores every action alike, and takes the best of those that are allowed."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions import Subset
from mlgo.jit.state import SUBSET, Choice, FeatureColumn, Observer
from mlgo.policy.network import Architecture, logits
from mlgo.policy.stored import decode_architecture, load_model, save_model

_FORMAT = 1
_KIND = "choice until stop"


@dataclass(frozen=True)
class ChoicePolicy:
    """Scores candidates and stopping by a perceptron; takes the largest output, of equal ones the first.

    Attributes:
        task: decision problem it was trained for.
        observer: what it sees.
        architecture: layer widths.
        weights: float32 [num_params].
        origin: provenance.
    """

    task: str
    observer: Observer
    architecture: Architecture
    weights: np.ndarray
    origin: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def fresh(task: str, observer: Observer, hidden: list[int], rng: np.random.Generator) -> "ChoicePolicy":
        """A policy that finds all actions equal: He et al.'s weights in hidden layers, zeros in the last."""
        architecture = Architecture((observer.num_inputs, *hidden, 1))
        weights = np.zeros(architecture.num_params, np.float32)
        for (inputs, outputs), part in list(zip(architecture.shapes, architecture.layer_slices(), strict=True))[:-1]:
            matrix = rng.standard_normal(inputs * outputs) * np.sqrt(2.0 / inputs)
            weights[part.start : part.start + inputs * outputs] = matrix
        return ChoicePolicy(task, observer, architecture, weights)

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
