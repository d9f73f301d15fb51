"""Gymnasium spaces of what a compiler sends and takes."""

import numpy as np
from gymnasium import spaces

from mlgo.base.types import TensorSpec
from mlgo.host.log import Header

Observation = dict[str, np.ndarray]
"""Features by name."""


def observed(header: Header, hidden: frozenset[str]) -> tuple[TensorSpec, ...]:
    """Features that an agent may see: all but those that tell the heuristic's decision."""
    return tuple(spec for spec in header.features if spec.name not in hidden)


def observation_space(features: tuple[TensorSpec, ...]) -> spaces.Dict:
    """A box for each feature, of the compiler's own type and shape; what it may send has no bounds but the type's."""
    return spaces.Dict({spec.name: _box(spec) for spec in features})


def _box(spec: TensorSpec) -> spaces.Box:
    if spec.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, spec.shape, spec.dtype.type)
    bounds = np.iinfo(spec.dtype)
    return spaces.Box(bounds.min, bounds.max, spec.shape, spec.dtype.type)
