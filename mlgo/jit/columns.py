"""From a compiler's features of candidates to numbers between 0 and 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mlgo.errors import PolicyError

Kind = Literal["flag", "category", "count", "weight"]


@dataclass(frozen=True)
class FeatureColumn:
    """How one feature enters a network.

    Attributes:
        name: of the feature.
        kind: ``flag`` is 0 or 1. ``category`` becomes one input for each of its values. ``count`` becomes
            ``log(1 + x) / log(1 + cap)``. ``weight`` is a count whose negative values are overflows, and so stand for
            the cap.
        cap: number of categories, or the count that becomes 1; larger ones do, too.
    """

    name: str
    kind: Kind
    cap: int = 1

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs it becomes."""
        return tuple(f"{self.name}_{i}" for i in range(self.cap)) if self.kind == "category" else (self.name,)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Map ``int64 [num]`` to ``float32 [num, num_inputs]`` within 0 and 1."""
        if self.kind == "flag":
            return (values != 0).astype(np.float32)[:, None]
        if self.kind == "category":
            return np.eye(self.cap, dtype=np.float32)[np.where((values < 0) | (values >= self.cap), 0, values)]
        lowest = np.where(values < 0, self.cap, values) if self.kind == "weight" else np.maximum(values, 0)
        return (np.log1p(np.minimum(lowest, self.cap)) / np.log1p(self.cap)).astype(np.float32)[:, None]


UNKNOWN_CAP = 1 << 20
"""For features that are not in the table of their compiler: later versions may tell more."""


def columns_for(names: Sequence[str], known: Mapping[str, FeatureColumn]) -> tuple[FeatureColumn, ...]:
    """Columns of the features that a compiler tells, in its order."""
    return tuple(known.get(name) or FeatureColumn(name, "count", UNKNOWN_CAP) for name in names)


def inputs_of(columns: Sequence[FeatureColumn], names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Inputs of all candidates, float32 [num_candidates, num_inputs]."""
    missing = [column.name for column in columns if column.name not in names]
    if missing:
        raise PolicyError(f"the compiler does not tell {', '.join(missing)}; train a policy for this compiler")
    parts = [column(values[:, names.index(column.name)]) for column in columns]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(values), 0), np.float32)


VIABLE = "viable"
"""Feature that tells whether the JIT would perform a candidate."""

_WEIGHT_CAP = 3_269_016

JIT_COLUMNS = {
    column.name: column
    for column in (
        FeatureColumn("type", "category", 7),  # other, int, long, float, double, struct, SIMD
        FeatureColumn(VIABLE, "flag"),
        FeatureColumn("live_across_call", "flag"),
        FeatureColumn("const", "flag"),
        FeatureColumn("shared_const", "flag"),
        FeatureColumn("make_cse", "flag"),
        FeatureColumn("has_call", "flag"),
        FeatureColumn("containable", "flag"),
        FeatureColumn("cost_ex", "count", 80),
        FeatureColumn("cost_sz", "count", 54),
        FeatureColumn("use_count", "count", 567),
        FeatureColumn("def_count", "count", 189),
        FeatureColumn("use_wt_cnt", "weight", _WEIGHT_CAP),
        FeatureColumn("def_wt_cnt", "weight", _WEIGHT_CAP),
        FeatureColumn("distinct_locals", "count", 5),
        FeatureColumn("local_occurrences", "count", 6),
        FeatureColumn("bb_count", "count", 1000),
        FeatureColumn("block_spread", "count", 1000),
        FeatureColumn("enreg_count", "count", 734),
    )
}
"""By the names that the JIT prints."""
