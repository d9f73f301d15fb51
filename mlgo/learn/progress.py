"""How far a training is, for those who wait: a bar on the terminal, figures in TensorBoard."""

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from tqdm import tqdm

from mlgo.learn.history import TensorBoardLog


class TrainingProgress:
    """Bar and TensorBoard log of one training.

    Args:
        folder: log folder of this run; its name is shown beside the bar.
        total: steps in all.
        done: those that an earlier run has done.
        unit: what a step is called.
    """

    def __init__(self, folder: Path, total: int, done: int, unit: str) -> None:
        self._board = TensorBoardLog(folder)
        self._bar = tqdm(total=total, initial=done, desc=folder.name, unit=unit, disable=None)
        self._done, self._begin = done, time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since this run began."""
        return time.monotonic() - self._begin

    def advance(self, step: int, record: dict[str, Any], **shown: Any) -> None:
        """Move on to a step.

        Args:
            step: steps done by now.
            record: its figures, for TensorBoard.
            shown: what stands beside the bar.
        """
        self._board.add(record, step)
        self._bar.update(step - self._done)
        self._bar.set_postfix(**shown)
        self._done = step

    def add_histogram(self, name: str, values: np.ndarray, step: int) -> None:
        """Log how numbers [...] are distributed; see `TensorBoardLog.add_histogram`."""
        self._board.add_histogram(name, values, step)

    def say(self, text: str) -> None:
        """Print a line above the bar, to standard error."""
        self._bar.write(text, sys.stderr)

    def __enter__(self) -> "TrainingProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        self._board.__exit__(kind, error, trace)
