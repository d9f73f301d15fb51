"""The members of a training in one policy: their mean, or with caution the network of `caution`."""

from collections.abc import Sequence

import numpy as np

from mlgo.learn.marginal.caution import Layer, cautious, cautious_members, cautious_shape
from mlgo.learn.marginal.mean import mean_members, mean_of, mean_shape
from mlgo.policy.network import Architecture


def joint_shape(member: Architecture, num_members: int, caution: float) -> Architecture:
    """Of the joint network."""
    return mean_shape(member, num_members) if caution == 0.0 else cautious_shape(member, num_members)


def join(members: Sequence[np.ndarray], shape: Architecture, heuristic: Layer | None, caution: float) -> np.ndarray:
    """Weights of the joint network, float32 [num_params of `joint_shape`]; takes what `cautious` takes.

    The heuristic may be left out without caution.
    """
    if caution == 0.0:
        return mean_of(members, shape)
    assert heuristic is not None
    return cautious(members, shape, heuristic, caution)


def members_of(joint: np.ndarray, shape: Architecture, num_members: int, caution: float) -> np.ndarray:
    """The members that `join` was given, float32 [num_members, num_params]; see `mean_members`, `cautious_members`."""
    return (mean_members if caution == 0.0 else cautious_members)(joint, shape, num_members)
