"""Does the exported model decide as the policy does?"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlgo.actions import ActionSpace
from mlgo.core.errors import PolicyError


@dataclass(frozen=True)
class Parity:
    """Outcome of a comparison.

    Attributes:
        questions: questions asked of both.
        ambiguous: questions with another action too close to compare.
        mismatches: others with different decisions.
        inlined: decisions to inline; None for other tasks.
    """

    questions: int
    ambiguous: int
    mismatches: int
    inlined: int | None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compare_decisions(actions: ActionSpace, logits: np.ndarray, decisions: np.ndarray) -> Parity:
    """Compare an exported model's decisions with the policy's.

    Args:
        actions: of the policy.
        logits: of the policy, float32 [num_steps] or [num_steps, num_actions].
        decisions: int64 or float32 [num_steps], those of the model.

    Raises:
        PolicyError: nothing to compare, or they differ: the export must not be used.
    """
    if not np.isfinite(logits if logits.ndim == 1 else logits.max(axis=1)).all():
        raise PolicyError("the policy's output is not a number; train it again")
    clear, wrong = actions.differing(logits, decisions)
    if not clear.any():
        raise PolicyError("no recorded question has a clear decision; parity cannot be shown")
    if wrong.any():
        raise PolicyError(f"the exported model differs from the policy in {int(wrong.sum())} of {len(wrong)} decisions")
    inlined = int((decisions != 0).sum()) if actions.yes_or_no else None
    return Parity(len(wrong), int((~clear).sum()), 0, inlined)
