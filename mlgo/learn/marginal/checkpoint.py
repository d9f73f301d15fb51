"""State of the marginal-cost rounds on disk."""

from pathlib import Path
from typing import Any

import numpy as np

from mlgo.learn.checkpoint import read_checkpoint, write_checkpoint
from mlgo.learn.marginal.loop import MarginalState


def save_state(state: MarginalState, path: Path) -> None:
    """Replace the checkpoint."""
    record = {"best": state.best, "best_reward": state.best_reward, "history": state.history}
    write_checkpoint(path, {"members": np.stack(state.members)}, record)


def load_state(path: Path) -> MarginalState | None:
    """Read the checkpoint; None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    return read_checkpoint(path, _decode)


def _decode(arrays: dict[str, np.ndarray], record: Any) -> MarginalState:
    return MarginalState(tuple(arrays["members"]), record["best"], record["best_reward"], tuple(record["history"]))
