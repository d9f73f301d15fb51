"""Checkpoints: named arrays and one JSON record in one file, replaced atomically, read back exactly."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mlgo.core.errors import ArtifactError
from mlgo.core.files import content_hash, source_hash, write_bytes

_RECORD = "record"

State = TypeVar("State")


def checkpoint_path(folder: Path, name: str, follows_from: Any) -> Path:
    """Where a training keeps its state: a file of its own for other inputs, and for other code.

    Args:
        folder: of all checkpoints.
        name: of the policy.
        follows_from: what decides how the training goes, besides the code of this package, as a JSON value.
    """
    return folder / f"{name}-{content_hash([follows_from, source_hash()])}.npz"


def write_checkpoint(path: Path, arrays: Mapping[str, np.ndarray], record: Any) -> None:
    """Replace a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        path: file to replace.
        arrays: by name, any dtype and shape [...]; ``record`` is taken.
        record: JSON value.
    """
    buffer = io.BytesIO()
    everything: dict[str, Any] = {**arrays, _RECORD: np.frombuffer(json.dumps(record).encode(), np.uint8)}
    np.savez(buffer, **everything)
    write_bytes(path, buffer.getvalue())


def read_checkpoint(path: Path, decode: Callable[[dict[str, np.ndarray], Any], State]) -> State | None:
    """Read a state; None when there is no such file.

    Args:
        path: file to read.
        decode: ``(arrays, record) -> state``, arrays [...] as they were written; raises KeyError, TypeError or
            ValueError where something else was saved.

    Raises:
        ArtifactError: the file is damaged, or not of this version.
    """
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        record = json.loads(arrays.pop(_RECORD).tobytes())
    except Exception as error:  # a damaged zip raises half a dozen types
        raise ArtifactError(f"checkpoint {path} is damaged ({error}); delete it to start anew") from error
    try:
        return decode(arrays, record)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"checkpoint {path} is not of this version ({error}); delete it to start anew") from error
