"""What exported models are asked: the questions that a run has recorded."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import read_table
from mlgo.base.seeding import sample
from mlgo.errors import ArtifactError, PolicyError
from mlgo.host.actions.reading import check_features
from mlgo.host.tasks.ir2vec import vocabulary_of
from mlgo.host.tasks.task import get_task
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import values_of

PARITY_QUESTIONS = 1000
"""Where not all are asked."""


def asked_features(policy: Policy) -> tuple[str, ...]:
    """Features that a model is fed.

    Raises:
        PolicyError: some are none of LLVM's models: numbers of embeddings, or the heuristic's decision.
    """
    if vocabulary := vocabulary_of(policy.features):
        raise PolicyError(
            f"the policy looks at embeddings (compile.ir2vec: {vocabulary}), which LLVM sends as vectors and no "
            "exported model takes; use it in mlgo compile and mlgo evaluate, or train one without"
        )
    if told := [name for name in policy.features if name in get_task(policy.task).default_features]:
        raise PolicyError(
            f"the policy looks at LLVM's own decision ({told[0]}, compile.tell_heuristic), which no exported model is "
            "told; use it in mlgo compile and mlgo evaluate, or train one without"
        )
    return (*policy.actions.needed, *policy.normalisation.features)


def read_questions(path: Path, policy: Policy) -> pa.Table:
    """Read a trace, on whose questions exported models are compared with the policy.

    Raises:
        ArtifactError: there is no readable trace, or no question in it.
        PolicyError: it lacks a feature of the policy.
    """
    trace = read_table(path)
    check_features(asked_features(policy), trace.column_names, "the trace")
    if not trace.num_rows:
        raise ArtifactError(f"{path} holds no question; parity cannot be shown")
    return trace


def draw_questions(trace: pa.Table, count: int | None, seed: int) -> pa.Table:
    """Draw rows of a trace in their order, by the root seed of the run; all without a count."""
    if count is None or trace.num_rows <= count:
        return trace
    return trace.take(sample(range(trace.num_rows), count, seed, "parity"))


def recorded_questions(trace: pa.Table, policy: Policy) -> dict[str, np.ndarray]:
    """What a model is asked in a trace: features by name, [num_steps] or [num_steps, num_columns]."""
    return {name: values_of(trace, name) for name in asked_features(policy)}
