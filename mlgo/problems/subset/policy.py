"""A trained chooser: one network that judges every action alike, and takes the best of those that are allowed."""

import io
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.core.errors import ArtifactError, PolicyError
from mlgo.core.files import read_array, read_json, write_bytes, write_json
from mlgo.policy.network import Architecture, logits
from mlgo.problems.subset.columns import Column
from mlgo.problems.subset.state import Choice, Observer

_FORMAT = 1
_KIND = "choice until stop"


@dataclass(frozen=True)
class ChoicePolicy:
    """Judges candidates and stopping by a perceptron; takes the largest output, of equal ones the first.

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

    def scores(self, choice: Choice) -> np.ndarray:
        """Outputs for all actions, float32 [max_candidates + 1]; minus infinity where one is not allowed."""
        outputs = logits(self.architecture.unflatten(self.weights), self.observer.columns_of(choice))
        return np.where(self.observer.allowed(choice), outputs, np.float32(-np.inf))

    def decide(self, choice: Choice) -> int:
        """The best action: a position, or ``observer.max_candidates`` to stop."""
        return int(self.scores(choice).argmax())

    def draw(self, choice: Choice, rng: np.random.Generator) -> int:
        """An action drawn with the probabilities ``softmax(scores)`` (by adding Gumbel noise)."""
        return int(
            (self.scores(choice).astype(np.float64) + rng.gumbel(size=self.observer.max_candidates + 1)).argmax()
        )


def save_choice_policy(policy: ChoicePolicy, folder: Path) -> None:
    """Write ``policy.json`` and ``weights.npy``; the same policy gives the same bytes."""
    buffer = io.BytesIO()
    np.save(buffer, policy.weights)
    write_bytes(folder / "weights.npy", buffer.getvalue())
    write_json(
        folder / "policy.json",
        {
            "format": _FORMAT,
            "kind": _KIND,
            "task": policy.task,
            "widths": list(policy.architecture.widths),
            "max_candidates": policy.observer.max_candidates,
            "columns": [asdict(column) for column in policy.observer.columns],
            "provenance": policy.origin,
        },
    )


def load_choice_policy(folder: Path) -> ChoicePolicy:
    """Read a policy.

    Raises:
        ArtifactError: files are missing or damaged.
        PolicyError: the files contradict each other, or a weight is not a finite number.
    """
    record = read_json(folder / "policy.json")
    try:
        if (record["kind"], record["format"]) != (_KIND, _FORMAT):
            raise PolicyError(
                f"{folder} holds {record['kind']}, format {record['format']}; this needs {_KIND}, {_FORMAT}"
            )
        observer = Observer(tuple(Column(**column) for column in record["columns"]), int(record["max_candidates"]))
        architecture = Architecture(tuple(record["widths"]))
        weights = read_array(folder / "weights.npy")
        policy = ChoicePolicy(record["task"], observer, architecture, weights, record["provenance"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"{folder} does not hold a readable policy ({error})") from error
    architecture.unflatten(weights)
    if architecture.widths[0] != observer.num_inputs or architecture.widths[-1] != 1:
        raise PolicyError(f"{folder}: layers {architecture.widths} do not fit {observer.num_inputs} inputs")
    if weights.dtype != np.float32 or not np.isfinite(weights).all():
        raise PolicyError(f"{folder}: weights that are not finite float32 numbers; train it again")
    return policy
