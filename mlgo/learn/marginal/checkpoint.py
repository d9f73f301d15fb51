"""State of the marginal-cost rounds on disk."""

from pathlib import Path
from typing import Any

import numpy as np

from mlgo.learn.checkpoint import read_checkpoint, write_checkpoint
from mlgo.learn.marginal.loop import MarginalState


def save_state(state: MarginalState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the rounds stand.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    record = {"best": state.best, "best_reward": state.best_reward, "history": state.history, "extra": extra}
    write_checkpoint(path, {"members": np.stack(state.members)}, record)


def load_state(path: Path) -> tuple[MarginalState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    return read_checkpoint(path, _decode) or (None, None)


def _decode(arrays: dict[str, np.ndarray], record: Any) -> tuple[MarginalState, Any]:
    history = tuple(record["history"])
    state = MarginalState(tuple(arrays["members"]), record["best"], record["best_reward"], history)
    return state, record["extra"]
