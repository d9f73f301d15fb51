"""Evolution-strategy state on disk: one atomic file, read back exactly."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.errors import ArtifactError
from mlgo.files import write_bytes
from mlgo.learn.es.loop import EsState
from mlgo.learn.es.update import AdamState


def save_state(state: EsState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the search stands.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    buffer = io.BytesIO()
    np.savez(
        buffer,
        mean=state.mean,
        best=state.best,
        adam_first=state.adam.first,
        adam_second=state.adam.second,
        scalars=np.array([state.generation, state.adam.count], np.int64),
        best_reward=np.array(state.best_reward),
        history=np.frombuffer(json.dumps(state.history).encode(), np.uint8),
        extra=np.frombuffer(json.dumps(extra).encode(), np.uint8),
    )
    write_bytes(path, buffer.getvalue())


def load_state(path: Path) -> tuple[EsState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    if not path.exists():
        return None, None
    try:
        with np.load(path, allow_pickle=False) as data:
            generation, count = (int(value) for value in data["scalars"])
            state = EsState(
                generation,
                data["mean"],
                AdamState(count, data["adam_first"], data["adam_second"]),
                data["best"],
                float(data["best_reward"]),
                tuple(json.loads(data["history"].tobytes())),
            )
            return state, json.loads(data["extra"].tobytes())
    except Exception as error:  # a damaged zip raises half a dozen types
        raise ArtifactError(f"checkpoint {path} is damaged ({error}); delete it to start anew") from error
