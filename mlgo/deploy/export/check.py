"""C++ of policies, compiled and asked recorded questions before anybody uses it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.deploy.export.cpp import Cpp
from mlgo.deploy.export.parity import Parity, compare_decisions
from mlgo.deploy.export.questions import recorded_questions
from mlgo.policy.policy import Policy


def check_cpp(folder: Path, policy: Policy, rows: pa.Table, selector: Sequence[int] = ()) -> Parity:
    """Compare the decisions of a compiled class with a policy's.

    Args:
        folder: what `Cpp.write` or `export_selected` has written.
        policy: what it must decide as.
        rows: recorded questions.
        selector: of this policy, see `cpp.selector`; none for a class of one policy.

    Raises:
        CompileError: the class does not compile or run.
        PolicyError: a decision differs by more than rounding.
    """
    asked = recorded_questions(rows, policy)
    words = {"model_selector": np.tile(np.array(selector, np.uint64), (rows.num_rows, 1))} if selector else {}
    with Cpp().opened(folder, policy) as ask:
        decisions = ask({**asked, **words})
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    return compare_decisions(policy.actions, logits, decisions)
