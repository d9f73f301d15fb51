"""Checkpoints: where a training stands in one file, replaced atomically, read back exactly."""

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import content_hash, source_hash, write_bytes
from mlgo.errors import ArtifactError


def checkpoint_path(folder: Path, name: str, follows_from: Any) -> Path:
    """Where a training keeps its state: a file of its own for other inputs, and for other code.

    Args:
        folder: of all checkpoints.
        name: of the policy.
        follows_from: what decides how the training goes, besides the code of this package, as a JSON value.
    """
    return folder / f"{name}-{content_hash([follows_from, source_hash()])}.npz"


def save_state(state: Any, path: Path, extra: Any = None) -> None:
    """Replace a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: dataclass of JSON values, arrays of any dtype and shape, and mappings (by text), sequences and further
            dataclasses of these.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    numbers: list[bytes] = []
    record = json.dumps({"state": _plain(state, numbers), "extra": extra}).encode()
    buffer = io.BytesIO()
    np.savez(buffer, record=np.frombuffer(record, np.uint8), numbers=np.frombuffer(b"".join(numbers), np.uint8))
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, *kinds: type) -> tuple[Any, Any]:
    """Read a state and what was saved beside it; two times None when there is no such file.

    Sequences come back as tuples.

    Args:
        path: file to read.
        kinds: dataclasses that the state is made of, its own among them.

    Raises:
        ArtifactError: the file is damaged, or not of this version.
    """
    if not path.exists():
        return None, None
    try:
        with np.load(path, allow_pickle=False) as data:
            record, numbers = json.loads(data["record"].tobytes()), io.BytesIO(data["numbers"].tobytes())
    except Exception as error:  # a damaged zip raises half a dozen types
        raise ArtifactError(f"checkpoint {path} is damaged ({error}); delete it to start anew") from error
    try:
        return _restored(record["state"], {kind.__name__: kind for kind in kinds}, numbers), record["extra"]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"checkpoint {path} is not of this version ({error}); delete it to start anew") from error


def _plain(value: Any, numbers: list[bytes]) -> Any:
    """A JSON value in which one-entry objects tell what was no JSON; arrays go to ``numbers``, in order."""
    if isinstance(value, np.ndarray):
        numbers.append(value.tobytes())
        return {"array": [value.dtype.str, value.shape]}
    if is_dataclass(value):
        return {type(value).__name__: {one.name: _plain(getattr(value, one.name), numbers) for one in fields(value)}}
    if isinstance(value, Mapping):
        return {"mapping": {key: _plain(one, numbers) for key, one in value.items()}}
    return [_plain(one, numbers) for one in value] if isinstance(value, list | tuple) else value


def _restored(value: Any, kinds: Mapping[str, type], numbers: io.BytesIO) -> Any:
    if isinstance(value, list):
        return tuple(_restored(one, kinds, numbers) for one in value)
    if not isinstance(value, dict):
        return value
    ((what, content),) = value.items()
    if what == "array":
        dtype, shape = np.dtype(content[0]), tuple(content[1])
        return np.frombuffer(numbers.read(dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape).copy()
    parts = {key: _restored(one, kinds, numbers) for key, one in content.items()}
    return parts if what == "mapping" else kinds[what](**parts)
