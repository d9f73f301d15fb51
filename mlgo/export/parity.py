"""Does the exported model decide as the policy does?"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlgo.core.errors import PolicyError

AMBIGUOUS_LOGIT = 1e-4
"""Closer to zero than this, rounding may decide; such questions are counted, not compared."""


@dataclass(frozen=True)
class Parity:
    """Outcome of a comparison.

    Attributes:
        questions: questions asked of both.
        ambiguous: questions with a logit too close to zero to compare.
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


def compare_decisions(policy_logits: np.ndarray, decisions: np.ndarray) -> Parity:
    """Compare the policy's logits (float32 [num_steps]) with exported decisions (int64 [num_steps]).

    Raises:
        PolicyError: nothing to compare, or they differ: the export must not be used.
    """
    if not np.isfinite(policy_logits).all():
        raise PolicyError("the policy's output is not a number; train it again")
    clear = np.abs(policy_logits) >= AMBIGUOUS_LOGIT
    if not clear.any():
        raise PolicyError("no recorded question has a clear decision; parity cannot be shown")
    wrong = clear & ((policy_logits > 0.0) != (decisions != 0))
    if wrong.any():
        raise PolicyError(f"the exported model differs from the policy in {int(wrong.sum())} of {len(wrong)} decisions")
    return Parity(len(wrong), int((~clear).sum()), int(wrong.sum()), int((decisions != 0).sum()))
