"""How far a training is: a bar and TensorBoard for those who wait, the learning curve as CSV in the end."""

import csv
import io
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tqdm import tqdm

from mlgo.base.files import read_record, write_text
from mlgo.base.packages import require
from mlgo.base.scratch import Closing
from mlgo.errors import ArtifactError


def write_history(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write records as CSV: columns in the order of their first appearance, gaps empty, truth values as 0 and 1."""
    columns = list(dict.fromkeys(name for record in history for name in record))
    rows = [[record.get(name) for name in columns] for record in history]
    write_text(path, csv_text(columns, ([int(one) if isinstance(one, bool) else one for one in row] for row in rows)))


def csv_text(header: Sequence[str], records: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; None becomes an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([header, *records])
    return buffer.getvalue()


class TrainingProgress(Closing):
    """A bar on the terminal, and numbers and distributions of a training for TensorBoard.

    TensorBoard's own ``summary.Writer`` knows scalars alone, so summaries go to the event file that it writes too: a
    folder must not hold two, because TensorBoard reads only the newest. Its name is shown beside the bar, which begins
    at the steps that an earlier run has done.
    """

    def __init__(self, folder: Path, total: int, done: int, unit: str) -> None:
        require("training", "train")
        # TensorBoard takes its own small stand-in for TensorFlow where this module exists; the real one costs seconds.
        sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(folder))
        self._bar = tqdm(total=total, initial=done, desc=folder.name, unit=unit, disable=None)
        self._done, self._begin = done, time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since this run began."""
        return time.monotonic() - self._begin

    def advance(self, step: int, record: Mapping[str, Any], **shown: Any) -> None:
        """Move on to a step: log the numbers of its record, and show the others beside the bar."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        for name, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._add_summary(scalar_pb(name, value), step)
        self._writer.flush()
        self._bar.update(step - self._done)
        self._bar.set_postfix(**shown)
        self._done = step

    def add_histogram(self, name: str, values: np.ndarray, step: int) -> None:
        """Log how numbers [...] are distributed; those that are not finite are left out."""
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        self._add_summary(histogram_pb(name, values[np.isfinite(values)]), step)

    def _add_summary(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def say(self, text: str) -> None:
        """Print a line above the bar, to standard error."""
        self._bar.write(text, sys.stderr)

    def close(self) -> None:
        self._bar.close()
        self._writer.close()


def read_limits(path: Path, seed: int) -> dict[int, float]:
    """Read what the best validation reward so far must reach, by step (generation, iteration, round).

    From the file of a batch of trials, see `mlgo.research.study`; steps that are not there have no limit.
    """
    record = read_record(path)
    try:
        return {int(step): float(reward) for step, reward in record["limits"].get(str(seed), {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} is no batch of trials ({error}); delete it and run: make sweep") from error


def missed_limit(
    limits: Mapping[int, float], history: Sequence[Mapping[str, Any]], total: int
) -> tuple[int, str] | None:
    """The first step at which a training, by its records from step 0 on, has missed its limit, and why in words.

    None if there is none. The last step has no limit: a training that is done costs nothing more.
    """
    best = float("-inf")
    for step, record in enumerate(history[:total]):
        if "validation_reward" in record:
            best = max(best, record["validation_reward"])
            if best < limits.get(step, float("-inf")):
                return step, (
                    f"pruned after step {step}: its best validation reward is {100 * best:+.3f} %, earlier trials had "
                    f"{100 * limits[step]:+.3f} % there"
                )
    return None
