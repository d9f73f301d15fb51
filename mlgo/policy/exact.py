"""The logit of one observation of integers, by operations in one order, so that other code can give the same bits.

BLAS and NumPy's float32 logarithm give the last bits that suit a processor. Here sums go from the first term to the
last, each operation is rounded to float32 by itself, and logarithms are rounded from float64, whose last bits hardly
ever matter.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlgo.host.actions import ActionSpace, Binary, Scaling, check_features
from mlgo.host.log import Header
from mlgo.policy.features import CLIP, Normalisation

_INT64 = np.dtype(np.int64)


class ExactNetwork(NamedTuple):
    """A network for observations whose numbers are all int64."""

    columns: np.ndarray  # int32 [num_features], where an observation has its features
    scales: np.ndarray  # float32 [3, num_features]: unit, centre and scale, see `Normalisation`
    layers: Sequence[tuple[np.ndarray, np.ndarray]]  # float32, see `mlgo.policy.network.Layers`

    def logit(self, payload: bytes) -> np.float32:
        """Map a raw observation to its logit, by NumPy."""
        unit, centre, scale = self.scales
        values = (np.frombuffer(payload, np.int64)[self.columns] / unit).astype(np.float32)
        sizes = np.log1p(np.abs(values), dtype=np.float64).astype(np.float32)
        values = np.maximum(np.minimum((np.copysign(sizes, values) - centre) / scale, CLIP), -CLIP)
        for matrix, bias in self.layers[:-1]:
            values = np.maximum(_sums(values, matrix) + bias, 0.0)
        matrix, bias = self.layers[-1]
        found: np.float32 = (_sums(values, matrix) + bias)[0]
        return found


def exact_network(actions: ActionSpace, header: Header, scaling: Scaling, layers: Sequence) -> ExactNetwork | None:
    """Bind layers to a compiler's features; None where these are no integers, PolicyError where some are missing."""
    names = [spec.name for spec in header.features if spec.dtype == _INT64 and spec.num_elements == 1]
    if not isinstance(actions, Binary) or not isinstance(scaling, Normalisation) or len(names) < len(header.features):
        return None
    check_features(scaling.features, names, "the compiler")
    unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
    scales = np.array([unit, scaling.centre, scaling.scale], np.float32)
    return ExactNetwork(np.array([names.index(name) for name in scaling.features], np.int32), scales, layers)


def _sums(values: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """``values @ matrix`` with each sum in the order of its terms; of groups one after the other."""
    terms = values.reshape(*matrix.shape[:-1], 1) * matrix
    if terms.shape[-1] > 1:
        return np.add.reduce(terms, axis=-2).reshape(-1)
    return np.add.accumulate(terms, axis=-2)[..., -1, :].reshape(-1)  # `reduce` would add a lone column by halves
