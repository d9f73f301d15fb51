"""Modules on which trainings met failures, and those they left out for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo.core.artifacts import FAILURES, read_table
from mlgo.report.origin import without_folders


def read_training_failures(folder: Path, policies: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of ``artifacts.FAILURES`` with the policy's name, of all policies whose training compiles anything.

    Raises:
        ArtifactError: a file is damaged.
    """
    return [
        {"policy": name, **row, "reason": without_folders(row["reason"])}
        for name in policies
        if (path := folder / name / "failures.parquet").exists()
        for row in read_table(path, FAILURES).to_pylist()
    ]
