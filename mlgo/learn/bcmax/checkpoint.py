"""BC-Max state on disk: one atomic file, read back exactly."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.errors import ArtifactError
from mlgo.files import write_bytes
from mlgo.learn.bcmax.best import Trajectory
from mlgo.learn.bcmax.loop import BCMaxState


def save_state(state: BCMaxState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the search stands.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    known = list(state.known.values())
    text = {
        "number": state.number,
        "best_reward": state.best_reward,
        "known": [[one.module, one.source, len(one.answers), one.reward] for one in known],
        "history": state.history,
        "extra": extra,
    }
    buffer = io.BytesIO()
    np.savez(
        buffer,
        weights=state.weights,
        best=state.best,
        inputs=np.concatenate([one.inputs for one in known]),
        answers=np.concatenate([one.answers for one in known]),
        text=np.frombuffer(json.dumps(text).encode(), np.uint8),
    )
    write_bytes(path, buffer.getvalue())


def load_state(path: Path) -> tuple[BCMaxState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    if not path.exists():
        return None, None
    try:
        with np.load(path, allow_pickle=False) as data:
            text = json.loads(data["text"].tobytes())
            ends = np.cumsum([length for _, _, length, _ in text["known"]])[:-1]
            parts = zip(text["known"], np.split(data["inputs"], ends), np.split(data["answers"], ends), strict=True)
            known = {
                module: Trajectory(module, source, inputs, answers, reward)
                for (module, source, _, reward), inputs, answers in parts
            }
            state = BCMaxState(
                text["number"], data["weights"], data["best"], text["best_reward"], known, tuple(text["history"])
            )
            return state, text["extra"]
    except Exception as error:  # a damaged zip raises half a dozen types
        raise ArtifactError(f"checkpoint {path} is damaged ({error}); delete it to start anew") from error
