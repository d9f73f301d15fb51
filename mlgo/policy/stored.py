"""Policies on disk: ``policy.json`` describes the network, ``weights.npy`` holds it."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from mlgo.actions import ActionSpace, Binary
from mlgo.core.errors import ArtifactError, ConfigError, PolicyError
from mlgo.core.files import read_array, read_json, write_bytes, write_json
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.problems.llvm.task import all_tasks, get_task

FAILURE = "failure.json"
"""File in a policy's folder that says why there is no policy; only sweeps leave one."""

_FORMAT = 2
"""Format 1 knows no units of features."""


class Network(Protocol):
    """What is kept: a perceptron, and how it sees the world."""

    @property
    def architecture(self) -> Architecture:
        """Layer widths."""
        ...

    @property
    def weights(self) -> np.ndarray:
        """float32 [num_params]."""
        ...

    @property
    def num_inputs(self) -> int:
        """Inputs that it must have for what it sees."""
        ...


Stored = TypeVar("Stored", bound=Network)


def save_policy(policy: Policy, folder: Path) -> None:
    """Write a policy; the same one gives the same bytes."""
    scaling = policy.normalisation
    record = {
        "format": _FORMAT,
        "task": policy.task,
        "widths": list(policy.architecture.widths),
        "features": list(scaling.features),
        "centre": [float(value) for value in scaling.centre],
        "scale": [float(value) for value in scaling.scale],
        "unit": None if scaling.unit is None else [float(value) for value in scaling.unit],
        "provenance": policy.origin,
    }
    save_network(policy.weights, record, folder)


def save_network(weights: np.ndarray, record: dict[str, Any], folder: Path) -> None:
    """Write weights, float32 [num_params], and what describes the network."""
    buffer = io.BytesIO()
    np.save(buffer, weights)
    write_bytes(folder / "weights.npy", buffer.getvalue())
    write_json(folder / "policy.json", record)


def load_policy(folder: Path, actions: type[ActionSpace] = ActionSpace) -> Policy:
    """Read a policy.

    Args:
        folder: holds the files.
        actions: action space that is needed; any by default.

    Raises:
        ArtifactError: files are missing, damaged, or of another version.
        PolicyError: its training failed, the files contradict each other, a weight is not a finite number, or it has
            another action space.
    """
    if (folder / FAILURE).exists():
        failure = read_json(folder / FAILURE)
        reason = failure.get("message") if isinstance(failure, dict) else failure
        raise PolicyError(f"{folder} holds no policy, its training failed: {reason}")
    policy = load_network(folder, _decode)
    scaling = policy.normalisation
    unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
    fits = len(scaling.features) == scaling.centre.size == scaling.scale.size == unit.size
    if not fits or not np.isfinite([*scaling.centre, *scaling.scale, *unit]).all():
        raise PolicyError(f"{folder}: centre, scale and unit do not fit {len(scaling.features)} features")
    if not (np.all(scaling.scale > 0) and np.all(unit > 0)):
        raise PolicyError(f"{folder}: a scale or unit is not above 0")
    if not isinstance(policy.actions, actions):
        raise PolicyError(f"this needs actions that are {actions.__name__.lower()}, not a policy of {policy.task}")
    return policy


def load_network(folder: Path, decode: Callable[[Path, dict[str, Any], np.ndarray], Stored]) -> Stored:
    """Read a network.

    Args:
        folder: holds the files.
        decode: makes it of folder, description and weights, float32 [num_params].

    Raises:
        ArtifactError: files are missing or damaged.
        PolicyError: the files contradict each other, or a weight is not a finite number.
    """
    record, weights = read_json(folder / "policy.json"), read_array(folder / "weights.npy")
    try:
        network = decode(folder, record, weights)
        if weights.dtype != np.float32:
            raise ValueError("weights.npy is not a float32 array")
        if not all(type(width) is int and width > 0 for width in record["widths"]):
            raise ValueError(f"unusable widths {record['widths']}")
        if not isinstance(record["provenance"], dict):
            raise ValueError("provenance is not an object")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"{folder} does not hold a readable policy ({error}); train it again") from error
    widths = network.architecture.widths
    if len(widths) < 2 or widths[-1] != 1:
        raise PolicyError(f"{folder}: layers {widths} do not end in one output")
    network.architecture.unflatten(weights)
    if not np.isfinite(weights).all():
        raise PolicyError(f"{folder}: {int((~np.isfinite(weights)).sum())} weights are not finite; train it again")
    if widths[0] != network.num_inputs:
        raise PolicyError(f"{folder}: {widths[0]} inputs where what it sees makes {network.num_inputs}")
    return network


def _decode(folder: Path, record: dict[str, Any], weights: np.ndarray) -> Policy:
    if record["format"] not in (1, _FORMAT):
        raise PolicyError(f"{folder} has policy format {record['format']}, this version reads 1 and 2; train it again")
    if record["task"] not in [task.name for task in all_tasks()]:
        raise PolicyError(f"{folder} is for task {record['task']!r}, which this version does not know")
    if not isinstance(record["features"], list):
        raise ValueError("features is not a list")
    unit = record["unit"] if record["format"] == _FORMAT else None
    scaling = Normalisation(
        tuple(record["features"]),
        np.array(record["centre"], np.float32),
        np.array(record["scale"], np.float32),
        None if unit is None else np.array(unit, np.float32),
    )
    return Policy(record["task"], scaling, Architecture(tuple(record["widths"])), weights, record["provenance"])


def check_binary(task: str, learner: str) -> None:
    """Refuse a task whose answers a learner of yes and no cannot give.

    Raises:
        ConfigError: naming learner and task.
    """
    if not isinstance(get_task(task).actions, Binary):
        raise ConfigError(f"{learner} learns answers of yes or no, task {task} has others; take bc or es for it")
