"""PPO state on disk: one atomic file, read back exactly."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.learn.checkpoint import read_checkpoint, write_checkpoint
from mlgo.learn.ppo.loop import PpoState
from mlgo.learn.ppo.rewards import RewardScale, RunningMoments


def save_state(state: PpoState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the training stands.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    record = {
        "iteration": state.iteration,
        "scale": asdict(state.scale),
        "best_reward": state.best_reward,
        "evaluations": state.evaluations,
        "history": state.history,
        "extra": extra,
    }
    networks = {f"array_{i}": array for i, array in enumerate(state.arrays)}
    write_checkpoint(path, {"best": state.best, **networks}, record)


def load_state(path: Path) -> tuple[PpoState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    return read_checkpoint(path, _decode) or (None, None)


def _decode(arrays: dict[str, np.ndarray], record: Any) -> tuple[PpoState, Any]:
    best = arrays.pop("best")
    state = PpoState(
        record["iteration"],
        tuple(arrays[f"array_{i}"] for i in range(len(arrays))),
        _scale(record["scale"]),
        best,
        record["best_reward"],
        record["evaluations"],
        tuple(record["history"]),
    )
    return state, record["extra"]


def _scale(values: dict[str, Any]) -> RewardScale:
    modules = {key: RunningMoments(**moments) for key, moments in values["modules"].items()}
    return RewardScale(values["prior"], RunningMoments(**values["every"]), modules)
