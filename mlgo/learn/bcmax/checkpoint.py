"""BC-Max state on disk: one atomic file, read back exactly."""

from pathlib import Path
from typing import Any

import numpy as np

from mlgo.learn.bcmax.best import Trajectory
from mlgo.learn.bcmax.loop import BCMaxState
from mlgo.learn.checkpoint import read_checkpoint, write_checkpoint


def save_state(state: BCMaxState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the search stands.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    known = list(state.known.values())
    record = {
        "number": state.number,
        "best_reward": state.best_reward,
        "known": [[one.module, one.function, one.source, len(one.answers), one.reward] for one in known],
        "history": state.history,
        "extra": extra,
    }
    arrays = {
        "weights": state.weights,
        "best": state.best,
        "inputs": np.concatenate([one.inputs for one in known]),
        "answers": np.concatenate([one.answers for one in known]),
    }
    write_checkpoint(path, arrays, record)


def load_state(path: Path) -> tuple[BCMaxState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    return read_checkpoint(path, _decode) or (None, None)


def _decode(arrays: dict[str, np.ndarray], record: Any) -> tuple[BCMaxState, Any]:
    ends = np.cumsum([length for _, _, _, length, _ in record["known"]])[:-1]
    parts = zip(record["known"], np.split(arrays["inputs"], ends), np.split(arrays["answers"], ends), strict=True)
    found = [
        Trajectory(module, source, inputs, answers, reward, function)
        for (module, function, source, _, reward), inputs, answers in parts
    ]
    state = BCMaxState(
        record["number"],
        arrays["weights"],
        arrays["best"],
        record["best_reward"],
        {one.key: one for one in found},
        tuple(record["history"]),
    )
    return state, record["extra"]
