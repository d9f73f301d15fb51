"""Policies on disk: ``policy.json`` describes the model and has its hash, ``weights.npy`` holds its numbers.

An imported policy has the graph ``model.tflite`` in place of numbers. The description of one tuned to a program
holds its overrides too: names of features, and a row of numbers for each question, of which the last is the answer.
"""

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from mlgo.base.files import file_sha256, json_text, read_array, read_input, read_record, write_bytes, write_record
from mlgo.base.names import LANGUAGES, Language
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, ConfigError, PolicyError
from mlgo.host.actions import ActionSpace, Binary, check_features
from mlgo.host.log import Header
from mlgo.host.tasks.task import all_tasks, get_task
from mlgo.policy.features import Normalisation, Unscaled
from mlgo.policy.imported import Graph, ImportedPolicy
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Overrides, Policy, Shape
from mlgo.policy.tree import Branching

FAILURE = "failure.json"
"""File in a policy's folder that says why there is no policy; only sweeps leave one."""

_NETWORK = 2
"""Format of a network; format 1 knows no units of features."""
_GROUPED = 5
"""Format of a network whose hidden units stand in groups."""
_TREE = 3
"""Format of a decision tree."""
_IMPORTED = 4
"""Format of an imported policy."""
_TUNED = 6
"""Format of a policy that was tuned to a program; ``base`` is that of its base."""
_GRAPH = "model.tflite"

StoredPolicy = Policy | ImportedPolicy
"""What a policy's folder holds. Both have a task, features, an action space and provenance, and answer a compiler."""


class StoredModel(Protocol):
    """A model on disk, and how it sees the world."""

    @property
    def architecture(self) -> Shape: ...

    @property
    def weights(self) -> np.ndarray:
        """float32 [num_params]."""

    @property
    def num_inputs(self) -> int:
        """Inputs that it must have for what it sees."""


Stored = TypeVar("Stored", bound=StoredModel)


def save_policy(policy: Policy, folder: Path) -> None:
    """Write a policy; the same one gives the same bytes."""
    scaling, shape = policy.normalisation, policy.architecture
    record: dict[str, Any] = {"format": _TREE, "task": policy.task}
    if isinstance(shape, Branching):
        record |= {"nodes": shape.num_nodes, "features": list(scaling.features)}
    else:
        assert isinstance(shape, Architecture)
        assert isinstance(scaling, Normalisation)
        record |= {
            "format": _NETWORK if shape.groups == 1 else _GROUPED,
            "widths": list(shape.widths),
            **({} if shape.groups == 1 else {"groups": shape.groups}),
            "features": list(scaling.features),
            "centre": [float(value) for value in scaling.centre],
            "scale": [float(value) for value in scaling.scale],
            "unit": None if scaling.unit is None else [float(value) for value in scaling.unit],
        }
    record["provenance"] = policy.origin
    if (own := policy.overrides) is not None:
        rows = np.concatenate([own.questions, own.answers[:, None]], axis=1).tolist()
        told = {"features": list(own.features), "rows": rows}
        record |= {"format": _TUNED, "base": record["format"], "overrides": told}
    save_model(policy.weights, record, folder)


def save_model(weights: np.ndarray, record: dict[str, Any], folder: Path) -> None:
    """Write weights, float32 [num_params], and what describes the model."""
    buffer = io.BytesIO()
    np.save(buffer, weights)
    write_bytes(folder / "weights.npy", data := buffer.getvalue())
    write_record(folder / "policy.json", {"weights_sha256": hashlib.sha256(data).hexdigest(), **record})


def save_imported(policy: ImportedPolicy, folder: Path) -> None:
    """Write an imported policy; the same one gives the same bytes."""
    write_bytes(folder / _GRAPH, policy.graph)
    record = {"format": _IMPORTED, "task": policy.task, "features": list(policy.features)}
    record |= {"graph_sha256": file_sha256(folder / _GRAPH), "provenance": policy.origin}
    write_record(folder / "policy.json", record)


def model_file(folder: Path) -> Path:
    """The file that holds the model of a policy."""
    return folder / (_GRAPH if _format(folder) == _IMPORTED else "weights.npy")


def model_sha256(folder: Path) -> str:
    """Hash of what a policy computes, which tells policies apart: of its model, and of its overrides if it has some."""
    record, model = read_record(folder / "policy.json"), file_sha256(model_file(folder))
    overrides = json_text(record["overrides"]) if record.get("format") == _TUNED else ""
    return hashlib.sha256(f"{model}{overrides}".encode()).hexdigest() if overrides else model


def _format(folder: Path) -> Any:
    return read_record(folder / "policy.json").get("format")


def load_policy(folder: Path, actions: type[ActionSpace] = ActionSpace) -> Policy:
    """Read a policy with a model of its own, for what looks into it: logits, weights, code; see `load_stored`."""
    policy = load_stored(folder, actions)
    if isinstance(policy, ImportedPolicy):
        tree = f", or a tree of it: mlgo distill {folder} -o NAME-sSEED" if policy.actions.yes_or_no else ""
        raise PolicyError(
            f"{folder} was imported: it answers a compiler in mlgo compile and mlgo evaluate, but its graph tells "
            f"nothing else; take another policy{tree}"
        )
    return policy


def load_stored(folder: Path, actions: type[ActionSpace] = ActionSpace) -> StoredPolicy:
    """Read a policy of any kind; ArtifactError where it is damaged, PolicyError unless it has these ``actions``."""
    if (folder / FAILURE).exists():
        reason = read_record(folder / FAILURE).get("message")
        raise PolicyError(f"{folder} holds no policy, its training failed: {reason}")
    policy: StoredPolicy
    if _format(folder) == _IMPORTED:
        policy = _load_imported(folder)
    else:
        policy = load_model(folder, _decode)
        if isinstance(policy.normalisation, Normalisation):
            _check_scaling(folder, policy.normalisation)
    if not isinstance(policy.actions, actions):
        raise PolicyError(f"this needs actions that are {actions.__name__.lower()}, not a policy of {policy.task}")
    return policy


def load_model(folder: Path, decode: Callable[[Path, dict[str, Any], np.ndarray], Stored]) -> Stored:
    """Read what holds a model; ``decode`` makes it of folder, description and weights, float32 [num_params]."""
    record, path = read_record(folder / "policy.json"), folder / "weights.npy"
    weights = read_array(path)
    try:
        if record.get("weights_sha256") not in (None, file_sha256(path)):
            raise ValueError("weights.npy is not what was written with it")
        stored = decode(folder, record, weights)
        if weights.dtype != np.float32:
            raise ValueError("weights.npy is not a float32 array")
        _check_origin(record["provenance"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"{folder} does not hold a readable policy ({error}); train it again") from error
    shape = stored.architecture
    if not np.isfinite(weights).all():
        raise PolicyError(f"{folder}: {int((~np.isfinite(weights)).sum())} weights are not finite; train it again")
    try:
        shape.model(weights)
    except PolicyError as error:
        raise PolicyError(f"{folder}: {error}") from error
    if shape.num_inputs != stored.num_inputs:
        raise PolicyError(f"{folder}: {shape.num_inputs} inputs where what it sees makes {stored.num_inputs}")
    return stored


def decode_architecture(folder: Path, record: dict[str, Any]) -> Architecture:
    """Read the layer widths of a network, and its groups; ValueError where they are no numbers of such."""
    widths, groups = record["widths"], record.get("groups", 1)
    if type(groups) is not int:
        raise ValueError(f"unusable number of groups {groups}")
    if not all(type(width) is int and width > 0 for width in widths):
        raise ValueError(f"unusable widths {widths}")
    if len(widths) < 2 or widths[-1] != 1:
        raise PolicyError(f"{folder}: layers {widths} do not end in one output")
    try:
        return Architecture(tuple(widths), groups)
    except PolicyError as error:
        raise PolicyError(f"{folder}: {error}") from error


def _load_imported(folder: Path) -> ImportedPolicy:
    record, path = read_record(folder / "policy.json"), folder / _GRAPH
    try:
        if record["graph_sha256"] != file_sha256(path):
            raise ValueError(f"it does not belong to {_GRAPH}")
        task, features = _decode_task(folder, record)
        graph = Graph(content := read_input(path))
        if not features or {*features} - graph.inputs.keys() or get_task(task).decision not in graph.outputs:
            raise ValueError(f"{_GRAPH} has not its inputs and output")
        _check_origin(record["provenance"])
        policy, inputs = ImportedPolicy(task, features, content, record["provenance"]), map(graph.inputs.get, features)
        policy.answers({one.name: np.zeros((1, one.num_elements), one.dtype) for one in inputs if one})  # it can be
        return policy
    except (KeyError, TypeError, ValueError, RuntimeError, ArtifactError) as error:
        raise ArtifactError(f"{folder} does not hold a readable policy ({error}); import it again") from error


def _decode_task(folder: Path, record: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The task and the features of a policy."""
    task = record["task"]
    if task not in [task.name for task in all_tasks()]:
        raise PolicyError(f"{folder} is for task {task!r}, which this version does not know")
    if not _are_names(record["features"]):
        raise ValueError("features is not a list of names")
    return task, tuple(record["features"])


def _are_names(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def _check_origin(origin: Any) -> None:
    """Refuse provenance in which what is read of it has another shape."""
    if not isinstance(origin, dict) or not isinstance(origin.get("compile", {}), dict):
        raise ValueError("provenance, or compile in it, is not an object")
    if odd := [name for name in ("languages", "fitted") if not _are_names(origin.get(name) or [])]:
        raise ValueError(f"{odd[0]} in provenance is not a list of names")


def _decode(folder: Path, record: dict[str, Any], weights: np.ndarray) -> Policy:
    if record["format"] == _TUNED:
        if record["base"] == _TUNED:
            raise ValueError("its base was tuned, too")
        base = _decode(folder, record | {"format": record["base"]}, weights)
        return replace(base, overrides=_overrides(record["overrides"], base))
    form = record["format"]
    if form not in (1, _NETWORK, _TREE, _GROUPED):
        raise PolicyError(f"{folder} has policy format {form}, this version reads 1 to {_TUNED}; train it again")
    task, features = _decode_task(folder, record)
    if form == _TREE:
        if type(record["nodes"]) is not int:
            raise ValueError(f"unusable number of nodes {record['nodes']}")
        shape = Branching(len(features), record["nodes"])
        return Policy(task, Unscaled(features), shape, weights, record["provenance"])
    unit = record["unit"] if form != 1 else None
    scaling = Normalisation(
        features,
        np.array(record["centre"], np.float32),
        np.array(record["scale"], np.float32),
        None if unit is None else np.array(unit, np.float32),
    )
    return Policy(task, scaling, decode_architecture(folder, record), weights, record["provenance"])


def _overrides(record: dict[str, Any], base: Policy) -> Overrides:
    features, rows = record["features"], record["rows"]
    if not features or not _are_names(features) or not all(type(one) is int for row in rows for one in row):
        raise ValueError("overrides are not rows of whole numbers by features")
    table = np.array(rows, np.int64).reshape(len(rows), len(features) + 1)
    if not len(table) or not base.actions.yes_or_no or not np.isin(table[:, -1], (0, 1)).all():
        raise ValueError("overrides do not answer yes or no")
    if len(np.unique(table[:, :-1], axis=0)) != len(table):
        raise ValueError("overrides hold a question twice")
    return Overrides(tuple(features), table[:, :-1], table[:, -1])


def _check_scaling(folder: Path, scaling: Normalisation) -> None:
    unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
    fits = all(one.shape == (len(scaling.features),) for one in (scaling.centre, scaling.scale, unit))
    if not fits or not np.isfinite([*scaling.centre, *scaling.scale, *unit]).all():
        raise PolicyError(f"{folder}: centre, scale and unit do not fit {len(scaling.features)} features")
    if not (np.all(scaling.scale > 0) and np.all(unit > 0)):
        raise PolicyError(f"{folder}: a scale or unit is not above 0")


def check_binary(task: str, learner: str) -> None:
    """Refuse a task whose answers a learner of yes and no cannot give."""
    if not isinstance(get_task(task).actions, Binary):
        raise ConfigError(f"{learner} learns answers of yes or no, task {task} has others; take bc or es for it")


def decide(policy: StoredPolicy, observation: Mapping[str, Any]) -> int | float:
    """What a policy answers to an observation: 1 or 0 for inlining, a position for eviction, else a priority.

    Args:
        observation: a number or an array by name of feature, as environments give it; the policy need not read all.

    Raises:
        PolicyError: a feature of the policy is missing.
    """
    wanted = (*policy.actions.needed, *policy.features)
    check_features(wanted, list(observation), "the observation")
    arrays = {name: np.atleast_1d(observation[name]) for name in wanted}
    specs = tuple(TensorSpec(name, array.dtype, array.shape) for name, array in arrays.items())
    header = Header(specs, TensorSpec("answer", np.dtype(policy.actions.dtype), (1,)))
    answer = policy.respond_to(header)(b"".join(array.tobytes() for array in arrays.values()))
    return np.frombuffer(answer, policy.actions.dtype).item()


def languages_of(policy: StoredPolicy) -> tuple[str, ...]:
    """In which languages a policy decides: those that its training was held to, as its provenance tells, else all."""
    told: list[Any] = policy.origin.get("languages", [])
    return tuple(one for one in LANGUAGES if one in told) or LANGUAGES


_GAIN_IN: dict[str, tuple[Language, ...]] = {
    "b2790d56febd8bc1f421b4a99c353c7d18d42f17c40040493d16ddb550339897": ("c++", "rust"),  # marginal-s0 of data/released
}
"""In which languages policies make programs smaller, by the hash of their model, where not in all of their training."""


def languages_by_default(folder: Path, policy: StoredPolicy) -> tuple[str, ...]:
    """In which languages a policy is asked unless the user says otherwise: where it gains, of `languages_of`."""
    return _GAIN_IN.get(model_sha256(folder), languages_of(policy))


def advisor_in(policy: StoredPolicy, language: str) -> StoredPolicy | None:
    """The policy, where modules in this language are its to decide; None where they are left to the heuristic."""
    return policy if language in languages_of(policy) else None
