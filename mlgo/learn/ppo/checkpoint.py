"""PPO state on disk: one atomic file, read back exactly."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.errors import ArtifactError
from mlgo.files import write_bytes
from mlgo.learn.ppo.loop import PpoState
from mlgo.learn.ppo.rewards import RewardScale, RunningMoments


def save_state(state: PpoState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the training stands.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    rest = {
        "iteration": state.iteration,
        "scale": asdict(state.scale),
        "best_reward": state.best_reward,
        "evaluations": state.evaluations,
        "history": state.history,
        "extra": extra,
    }
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {f"array_{i}": array for i, array in enumerate(state.arrays)}
    np.savez(buffer, best=state.best, rest=np.frombuffer(json.dumps(rest).encode(), np.uint8), **arrays)
    write_bytes(path, buffer.getvalue())


def load_state(path: Path) -> tuple[PpoState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    if not path.exists():
        return None, None
    try:
        with np.load(path, allow_pickle=False) as data:
            rest = json.loads(data["rest"].tobytes())
            num_arrays = sum(name.startswith("array_") for name in data.files)
            state = PpoState(
                rest["iteration"],
                tuple(data[f"array_{i}"] for i in range(num_arrays)),
                _scale(rest["scale"]),
                data["best"],
                rest["best_reward"],
                rest["evaluations"],
                tuple(rest["history"]),
            )
            return state, rest["extra"]
    except Exception as error:  # a damaged zip raises half a dozen types
        raise ArtifactError(f"checkpoint {path} is damaged ({error}); delete it to start anew") from error


def _scale(values: dict[str, Any]) -> RewardScale:
    modules = {key: RunningMoments(**moments) for key, moments in values["modules"].items()}
    return RewardScale(values["prior"], RunningMoments(**values["every"]), modules)
