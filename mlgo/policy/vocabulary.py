"""Vocabulary (per-feature quantiles of the default policy's questions) and the normalisation derived from it."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import VOCABULARY, trace_features
from mlgo.errors import TrainingError
from mlgo.policy.features import Normalisation, signed_log


def build_vocabulary(features: dict[str, np.ndarray], num_quantiles: int) -> pa.Table:
    """Rows of ``artifacts.VOCABULARY``: quantiles in equal steps of every feature, [num_values] by its name."""
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
    """Values of each feature in a trace, [num_values]; of columns those that are legal by ``mask``, itself left out."""
    found = {name: values_of(trace, name) for name in trace_features(trace) if name != mask}
    if not mask:
        return found
    legal = values_of(trace, mask) != 0
    return {name: values[legal] if values.ndim > 1 else values for name, values in found.items()}


def values_of(trace: pa.Table, name: str) -> np.ndarray:
    """A feature in a trace, [num_steps], or [num_steps, num_columns] where it has a number for each column."""
    if not pa.types.is_fixed_size_list(trace.schema.field(name).type):
        return trace[name].to_numpy()
    lists = trace[name].combine_chunks()
    return lists.flatten().to_numpy().reshape(len(lists), lists.type.list_size)


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
