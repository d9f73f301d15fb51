"""Which features a policy's answers hang on: permutation importance."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.seeding import generator, sample
from mlgo.host.actions import check_features
from mlgo.policy.policy import Policy

MAX_QUESTIONS = 20_000
"""A share of changed answers then has a standard error of at most 0.4 percent."""


@dataclass(frozen=True)
class Importance:
    """How much one feature matters."""

    feature: str
    changed_share: float  # of the answers, when the feature's values are dealt out anew


def sample_questions(
    trace: pa.Table, projects: Collection[str], features: Collection[str], seed: int, count: int = MAX_QUESTIONS
) -> np.ndarray:
    """Sample questions of some projects from ``artifacts.trace_schema`` rows: int64 [num_questions, num_features]."""
    check_features(list(features), trace.column_names, "the trace")
    wanted = pc.is_in(trace["project"], value_set=pa.array(sorted(projects), pa.string()))
    chosen = trace.filter(wanted).select(list(features))
    chosen = chosen.take(pa.array(sample(range(chosen.num_rows), count, seed, "importance"), pa.int64()))
    return np.column_stack([chosen[name].to_numpy() for name in features])


def permutation_importance(policy: Policy, observations: np.ndarray, seed: int) -> list[Importance]:
    """Share of the answers that change when a feature's values change places between questions, most important first.

    Breiman's permutation importance (Random Forests, Machine Learning 45, 2001, section 10), with changed answers in
    place of errors: it asks what the policy listens to, not whether it is right to.

    Args:
        observations: int64 [num_questions, num_features], columns in the policy's order.
        seed: root seed of the permutations; the one of a feature depends on its name alone.
    """
    if not len(observations):
        return []
    logits = policy.model.logits
    inputs = policy.normalisation(observations)  # number by number, so permuting its columns permutes the features
    answers = logits(inputs) > 0.0
    found = []
    for column, feature in enumerate(policy.normalisation.features):
        original = inputs[:, column].copy()
        inputs[:, column] = generator(seed, "importance", feature).permutation(original)
        changed = (logits(inputs) > 0.0) != answers
        inputs[:, column] = original
        found.append(Importance(feature, float(changed.mean())))
    return sorted(found, key=lambda one: -one.changed_share)
