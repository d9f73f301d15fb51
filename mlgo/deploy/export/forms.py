"""All forms in which a policy is exported, and whether an exported model decides as the policy does."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.files import file_sha256
from mlgo.deploy.export.cpp import Cpp
from mlgo.deploy.export.form import Form, recorded_questions
from mlgo.deploy.export.tensorflow_forms import AheadOfTime, SavedModel, TFLite
from mlgo.deploy.export.tosa import Tosa
from mlgo.errors import PolicyError
from mlgo.host.action_space import ActionSpace
from mlgo.policy.policy import Policy

POLICY_FILES = ("policy.json", "weights.npy")
"""Files of a policy; ``parity.json`` has their hashes."""

_QUESTIONS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Parity:
    """Outcome of a comparison."""

    questions: int  # questions asked of both
    ambiguous: int  # questions with another action as good but for rounding, which the model may choose
    mismatches: int  # decisions that are not the policy's by more than that
    inlined: int | None  # decisions to inline; None for other tasks

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def policy_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a policy."""
    return {name: file_sha256(folder / name) for name in POLICY_FILES}


def check_form(
    form: Form, folder: Path, policy: Policy, trace: pa.Table, progress: Callable[[int], object] = lambda num: None
) -> Parity:
    """Ask an exported model all questions of a trace, and compare its decisions with the policy's.

    Args:
        form: of the export.
        folder: what it has written.
        policy: what was exported.
        trace: questions, see `questions.draw_questions`.
        progress: called with the number of questions that have been asked since the last call.
    """
    logits, decisions = [], []
    with form.opened(folder, policy) as ask:
        for start in range(0, trace.num_rows, _QUESTIONS_AT_ONCE):
            asked = recorded_questions(trace.slice(start, _QUESTIONS_AT_ONCE), policy)
            logits.append(policy.logits(policy.actions.pack(np, asked, policy.normalisation.features)))
            decisions.append(ask(asked))
            progress(len(decisions[-1]))
    try:
        return compare_decisions(policy.actions, np.concatenate(logits), np.concatenate(decisions))
    except PolicyError as error:
        raise PolicyError(f"{form.name}: {error}") from error


def compare_decisions(actions: ActionSpace, logits: np.ndarray, decisions: np.ndarray) -> Parity:
    """Compare an exported model's decisions with the policy's.

    Args:
        actions: of the policy.
        logits: of the policy, float32 [num_steps] or [num_steps, num_actions].
        decisions: int64 or float32 [num_steps], those of the model.
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


def check_cpp(folder: Path, policy: Policy, rows: pa.Table, selector: Sequence[int] = ()) -> Parity:
    """Compare the decisions of a compiled class with a policy's.

    Args:
        folder: what `Cpp.write` or `export_selected` has written.
        policy: what it must decide as.
        rows: recorded questions.
        selector: of this policy, see `cpp.selector`; none for a class of one policy.
    """
    asked = recorded_questions(rows, policy)
    words = {"model_selector": np.tile(np.array(selector, np.uint64), (rows.num_rows, 1))} if selector else {}
    with Cpp().opened(folder, policy) as ask:
        decisions = ask({**asked, **words})
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    return compare_decisions(policy.actions, logits, decisions)


_IN_EVERY_RUN: tuple[Form, ...] = (SavedModel(), Cpp(), TFLite(), Tosa())
_ON_REQUEST: tuple[Form, ...] = (AheadOfTime(),)

FORMS = {form.name: form for form in _IN_EVERY_RUN}
"""Forms that each run writes, by name."""

ALL_FORMS = FORMS | {form.name: form for form in _ON_REQUEST}
"""The same with what ``scripts/export_policy.py --forms`` writes only if it is asked to."""
