"""Training curves, as the learning stages left them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.errors import ArtifactError


@dataclass(frozen=True)
class Curve:
    """History of one training run.

    Attributes:
        policy: policy with its seed.
        columns: numbers by column name, one per record, None where a record has none.
    """

    policy: str
    columns: dict[str, list[float | None]]

    @property
    def step(self) -> str:
        """Name of the first column, which counts: epoch, generation or iteration."""
        return next(iter(self.columns), "")

    def points(self, step: str, name: str, scale: float = 1.0) -> tuple[list[float], list[float]]:
        """Steps and scaled values of the records that have both; empty when a column is missing."""
        pairs = zip(self.columns.get(step, []), self.columns.get(name, []), strict=False)
        known = [(x, scale * y) for x, y in pairs if x is not None and y is not None]
        return [x for x, _ in known], [y for _, y in known]


def read_curves(folder: Path, policies: Sequence[str]) -> list[Curve]:
    """Read ``<policy>/history.csv`` of each policy.

    Raises:
        ArtifactError: missing or not a table of numbers.
    """
    return [Curve(name, _read_columns(folder / name / "history.csv")) for name in policies]


def _read_columns(path: Path) -> dict[str, list[float | None]]:
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            records = list(reader)
        return {name: [float(record[name]) if record[name] else None for record in records] for name in names}
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing; run the stage that makes it") from error
    except (OSError, ValueError, TypeError) as error:
        raise ArtifactError(f"{path} is not a table of numbers ({error}); delete it and train again") from error


def count_evaluations(policies: Path, policy: str) -> float:
    """Compiles that a training asked for, by the last line of its history.

    Args:
        policies: folder with a folder per policy.
        policy: policy with its seed.

    Raises:
        ArtifactError: the history is missing, or of an earlier version.
    """
    path = policies / policy / "history.csv"
    if not path.exists():
        raise ArtifactError(
            f"{path} is missing; run the train stage: snakemake --cores all train, with the --configfile of the other "
            "results"
        )
    (curve,) = read_curves(policies, [policy])
    counts = [count for count in curve.columns.get("evaluations", []) if count is not None]
    if not counts:
        raise ArtifactError(
            f"{path} has no evaluations, an earlier version wrote it; delete {path.parent}, train again"
        )
    return counts[-1]
