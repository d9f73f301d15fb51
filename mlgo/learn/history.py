"""Training curves: CSV as an artifact, TensorBoard for watching."""

import csv
import io
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from mlgo.files import write_text


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Write records as CSV: columns in the order of their first appearance, gaps empty, truth values as 0 and 1."""
    columns = list(dict.fromkeys(name for record in history for name in record))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for record in history:
        writer.writerow({name: int(value) if isinstance(value, bool) else value for name, value in record.items()})
    write_text(path, buffer.getvalue())


class TensorBoardLog:
    """Scalars of a run for TensorBoard.

    Args:
        folder: log folder of this run.
    """

    def __init__(self, folder: Path) -> None:
        # TensorBoard takes its own small stand-in for TensorFlow where this module exists; the real one costs seconds.
        sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
        from tensorboard.summary import Writer

        self._writer = Writer(str(folder))

    def add(self, record: dict[str, Any], step: int) -> None:
        """Log all numbers of a record."""
        for name, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def __enter__(self) -> "TensorBoardLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
