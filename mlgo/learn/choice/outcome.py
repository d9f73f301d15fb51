"""What a training of a chooser leaves behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo.learn.history import write_history
from mlgo.problems.subset.policy import ChoicePolicy, save_choice_policy


def write_choice_outcome(folder: Path, policy: ChoicePolicy, history: Sequence[dict[str, Any]]) -> None:
    """Write the policy and its learning curve.

    Args:
        folder: of the policy.
        policy: with its provenance.
        history: one record per step, oldest first.

    Raises:
        ArtifactError: a file cannot be written.
    """
    save_choice_policy(policy, folder)
    write_history(folder / "history.csv", list(history))
