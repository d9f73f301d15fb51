"""Policies on disk."""

import io
from pathlib import Path

import numpy as np

from mlgo.core.errors import ArtifactError, ConfigError, PolicyError
from mlgo.core.files import read_array, read_json, write_bytes, write_json
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.policy import Policy
from mlgo.policy.priority_policy import PriorityPolicy

KINDS: dict[str, type[Policy]] = {
    "inline-size": NetworkPolicy,
    "regalloc-evict": ColumnPolicy,
    "regalloc-priority": PriorityPolicy,
}
"""Kind of policy by task."""

FAILURE = "failure.json"
"""File in a policy's folder that says why there is no policy; only sweeps leave one."""

_FORMAT = 2


def save_policy(policy: Policy, folder: Path) -> None:
    """Write ``policy.json`` and ``weights.npy``; the same policy gives the same bytes."""
    buffer = io.BytesIO()
    np.save(buffer, policy.weights)
    write_bytes(folder / "weights.npy", buffer.getvalue())
    scaling = policy.normalisation
    write_json(
        folder / "policy.json",
        {
            "format": _FORMAT,
            "task": policy.task,
            "widths": list(policy.architecture.widths),
            "features": list(scaling.features),
            "centre": [float(value) for value in scaling.centre],
            "scale": [float(value) for value in scaling.scale],
            "unit": None if scaling.unit is None else [float(value) for value in scaling.unit],
            "provenance": policy.origin,
        },
    )


def load_policy(folder: Path) -> Policy:
    """Read a policy.

    Raises:
        ArtifactError: files are missing, damaged, or of another version.
        PolicyError: its training failed, the files contradict each other, or a weight is not a finite number.
    """
    if (folder / FAILURE).exists():
        failure = read_json(folder / FAILURE)
        reason = failure.get("message") if isinstance(failure, dict) else failure
        raise PolicyError(f"{folder} holds no policy, its training failed: {reason}")
    record, weights = read_json(folder / "policy.json"), read_array(folder / "weights.npy")
    try:
        if record["format"] != _FORMAT:
            raise PolicyError(
                f"{folder} has policy format {record['format']}, this version reads {_FORMAT}; train it again"
            )
        if record["task"] not in KINDS:
            raise PolicyError(f"{folder} is for task {record['task']!r}, which this version does not know")
        policy = KINDS[record["task"]](
            record["task"],
            Normalisation(
                tuple(record["features"]),
                np.array(record["centre"], np.float32),
                np.array(record["scale"], np.float32),
                None if record["unit"] is None else np.array(record["unit"], np.float32),
            ),
            Architecture(tuple(record["widths"])),
            weights,
            record["provenance"],
        )
        if weights.dtype != np.float32:
            raise ValueError("weights.npy is not a float32 array")
        if not all(type(width) is int and width > 0 for width in record["widths"]):
            raise ValueError(f"unusable widths {record['widths']}")
        if not isinstance(record["features"], list):
            raise ValueError("features is not a list")
        if not isinstance(policy.origin, dict):
            raise ValueError("provenance is not an object")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"{folder} does not hold a readable policy ({error}); train it again") from error
    scaling, widths = policy.normalisation, policy.architecture.widths
    if len(widths) < 2 or widths[-1] != 1:
        raise PolicyError(f"{folder}: layers {widths} do not end in one output")
    policy.architecture.unflatten(weights)
    if not np.isfinite(weights).all():
        raise PolicyError(f"{folder}: {int((~np.isfinite(weights)).sum())} weights are not numbers; train it again")
    if widths[0] != policy.num_inputs(len(scaling.features)):
        raise PolicyError(f"{folder}: {widths[0]} inputs for {len(scaling.features)} features")
    unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
    fits = len(scaling.features) == scaling.centre.size == scaling.scale.size == unit.size
    if not fits or not np.isfinite([*scaling.centre, *scaling.scale, *unit]).all():
        raise PolicyError(f"{folder}: centre, scale and unit do not fit {len(scaling.features)} features")
    if not (np.all(scaling.scale > 0) and np.all(unit > 0)):
        raise PolicyError(f"{folder}: a scale or unit is not above 0")
    return policy


def check_answers_yes_or_no(task: str, learner: str) -> None:
    """Refuse a task whose answers a learner of yes and no cannot give.

    Raises:
        ConfigError: naming learner and task.
    """
    if KINDS[task] is not NetworkPolicy:
        raise ConfigError(f"{learner} learns answers of yes or no, task {task} has others; take bc or es for it")


def as_network_policy(policy: Policy) -> NetworkPolicy:
    """The policy, where only one that answers yes or no will do.

    Raises:
        PolicyError: it is of another kind.
    """
    if not isinstance(policy, NetworkPolicy):
        raise PolicyError(f"this works for tasks with yes or no as answer, not for a policy of {policy.task}")
    return policy
