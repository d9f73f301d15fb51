"""Evolution-strategy state on disk: one atomic file, read back exactly."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.learn.checkpoint import read_checkpoint, write_checkpoint
from mlgo.learn.es.state import EsState
from mlgo.learn.es.trust_region import TrustRegionState
from mlgo.learn.es.update import AdamState, MomentumState

_OPTIMIZERS: dict[str, Any] = {kind.__name__: kind for kind in (AdamState, MomentumState, TrustRegionState)}


def save_state(state: EsState, path: Path, extra: Any = None) -> None:
    """Write a checkpoint; a kill at any moment leaves the old or the new one.

    Args:
        state: where the search stands.
        path: file to replace.
        extra: JSON value of the caller's own state.
    """
    optimizer = {f"optimizer_{one.name}": getattr(state.optimizer, one.name) for one in fields(state.optimizer)}
    record = {
        "generation": state.generation,
        "best_reward": state.best_reward,
        "optimizer": type(state.optimizer).__name__,
        "history": state.history,
        "extra": extra,
    }
    arrays = {name: np.asarray(value) for name, value in optimizer.items()}
    write_checkpoint(path, {"mean": state.mean, "best": state.best, **arrays}, record)


def load_state(path: Path) -> tuple[EsState, Any] | tuple[None, None]:
    """Read a checkpoint with what was saved beside it; two times None when there is none.

    Raises:
        ArtifactError: the file is damaged.
    """
    return read_checkpoint(path, _decode) or (None, None)


def _decode(arrays: dict[str, np.ndarray], record: Any) -> tuple[EsState, Any]:
    kind = _OPTIMIZERS[record["optimizer"]]
    optimizer = kind(*(_plain(arrays[f"optimizer_{one.name}"]) for one in fields(kind)))
    state = EsState(
        record["generation"],
        arrays["mean"],
        optimizer,
        arrays["best"],
        record["best_reward"],
        tuple(record["history"]),
    )
    return state, record["extra"]


def _plain(value: np.ndarray) -> Any:
    """Scalars as Python numbers, arrays as they are."""
    return value if value.ndim else value.item()
