"""What a training on compile results leaves behind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlgo.core.artifacts import FAILURES, write_rows
from mlgo.learn.history import write_history
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy


def write_outcome(
    folder: Path,
    policy: Policy,
    history: Sequence[dict[str, Any]],
    failures: list[dict[str, Any]],
    origin: Mapping[str, Any],
) -> None:
    """Write the policy, its learning curve and the failures met on the way.

    Args:
        folder: of the policy.
        policy: with its own provenance.
        history: one record per step, oldest first.
        failures: rows of ``artifacts.FAILURES``.
        origin: provenance of the failures.

    Raises:
        ArtifactError: a file cannot be written.
    """
    save_policy(policy, folder)
    write_history(folder / "history.csv", list(history))
    write_rows(folder / "failures.parquet", failures, FAILURES, origin)
