"""What recorded questions say: quantiles and scales of features, and which features a policy's answers hang on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import VOCABULARY, trace_features
from mlgo.base.seeding import generator, sample
from mlgo.errors import TrainingError
from mlgo.host.actions import check_features
from mlgo.policy.features import Normalisation, signed_log
from mlgo.policy.policy import Policy


def build_vocabulary(features: dict[str, np.ndarray], num_quantiles: int) -> pa.Table:
    """Table of ``artifacts.VOCABULARY``: quantiles of every feature, from minimum to maximum in equal steps.

    Args:
        features: numbers [num_values] by name, see `recorded_values`.
    """
    if not features or not len(next(iter(features.values()))):
        raise TrainingError("the trace holds no question; the corpus needs modules with calls that may be inlined")
    grid = np.linspace(0.0, 1.0, num_quantiles)
    rows = [
        {
            "feature": name,
            # Values of the trace, never in-between: a 0/1 feature has only 0 and 1 as quantiles.
            "quantiles": np.quantile(values, grid, method="inverted_cdf").astype(np.float64).tolist(),
            "num_distinct": int(np.unique(values).size),
        }
        for name, values in features.items()
    ]
    return pa.Table.from_pylist(rows, schema=VOCABULARY.remove_metadata())


def recorded_values(trace: pa.Table, mask: str = "") -> dict[str, np.ndarray]:
    """Values of each feature in a trace, [num_values]; of columns, those of the legal ones.

    Args:
        trace: ``artifacts.trace_schema`` rows.
        mask: feature that tells which columns are legal, itself left out; empty without one.
    """
    found = {name: values_of(trace, name) for name in trace_features(trace) if name != mask}
    if not mask:
        return found
    legal = values_of(trace, mask) != 0
    return {name: values[legal] if values.ndim > 1 else values for name, values in found.items()}


def values_of(trace: pa.Table, name: str) -> np.ndarray:
    """A feature in a trace, [num_steps], or [num_steps, num_columns] where it has a number for each column."""
    if not pa.types.is_fixed_size_list(trace.schema.field(name).type):
        numbers: np.ndarray = trace[name].to_numpy()
        return numbers
    lists = trace[name].combine_chunks()
    flat: np.ndarray = lists.flatten().to_numpy()
    return flat.reshape(len(lists), lists.type.list_size)


def normalisation(vocabulary: pa.Table, units: Mapping[str, float] | None = None) -> Normalisation:
    """Derive centre and scale from the quantiles, after the signed logarithm.

    Mean and standard deviation are taken over the inner 98 % of the quantiles, so single outliers do not set the
    scale. A feature that does not vary gets scale 1.

    Args:
        vocabulary: ``artifacts.VOCABULARY`` rows.
        units: of features that are not taken as they are, see `llvm.Task`.
    """
    names = vocabulary["feature"].to_pylist()
    quantiles = np.array(vocabulary["quantiles"].to_pylist(), np.float64)  # [num_features, num_quantiles]
    unit = np.array([(units or {}).get(name, 1.0) for name in names], np.float32)
    quantiles /= unit[:, None]
    edge = max(1, round(0.01 * quantiles.shape[1]))
    inner = signed_log(quantiles[:, edge:-edge] if quantiles.shape[1] > 2 * edge else quantiles)
    spread = inner.std(axis=1)
    return Normalisation(
        tuple(names),
        inner.mean(axis=1).astype(np.float32),
        np.where(spread > 1e-3, spread, 1.0).astype(np.float32),
        unit if (unit != 1.0).any() else None,
    )


MAX_QUESTIONS = 20_000
"""A share of changed answers then has a standard error of at most 0.4 percent."""


@dataclass(frozen=True)
class Importance:
    """How much one feature matters."""

    feature: str
    changed_share: float  # of the answers, when the feature's values are dealt out anew


def recorded_questions(
    trace: pa.Table, projects: Collection[str], features: Collection[str], seed: int, count: int = MAX_QUESTIONS
) -> np.ndarray:
    """Sample questions of some projects from ``artifacts.trace_schema`` rows: int64 [num_questions, num_features]."""
    check_features(list(features), trace.column_names, "the trace")
    wanted = pc.is_in(trace["project"], value_set=pa.array(sorted(projects), pa.string()))
    chosen = trace.filter(wanted).select(list(features))
    chosen = chosen.take(pa.array(sample(range(chosen.num_rows), count, seed, "importance"), pa.int64()))
    return np.column_stack([chosen[name].to_numpy() for name in features])


def permutation_importance(policy: Policy, observations: np.ndarray, seed: int) -> list[Importance]:
    """Share of the answers that change when a feature's values change places between the questions.

    Breiman's permutation importance (Random Forests, Machine Learning 45, 2001, section 10), with changed answers in
    place of errors: it asks what the policy listens to, not whether it is right to.

    Args:
        observations: int64 [num_questions, num_features], columns in the policy's order.
        seed: root seed of the permutations; the one of a feature depends on its name alone.

    Returns:
        One entry for each feature, most important first; none without questions.
    """
    if not len(observations):
        return []
    logits = policy.model.logits
    inputs = policy.normalisation(observations)  # number by number, so permuting its columns permutes the features
    answers = logits(inputs) > 0.0
    found = []
    for column, feature in enumerate(policy.normalisation.features):
        kept = inputs[:, column].copy()
        inputs[:, column] = generator(seed, "importance", feature).permutation(kept)
        changed = (logits(inputs) > 0.0) != answers
        inputs[:, column] = kept
        found.append(Importance(feature, float(changed.mean())))
    return sorted(found, key=lambda one: -one.changed_share)
