"""The mean of several estimates as one network: a group of hidden units for each."""

from collections.abc import Sequence

import numpy as np

from mlgo.policy.network import Architecture, flatten


def mean_shape(member: Architecture, num_members: int) -> Architecture:
    """Widths and groups of the joint network."""
    inputs, *hidden, _ = member.widths
    return Architecture((inputs, *(num_members * units for units in hidden), 1), num_members)


def mean_of(members: Sequence[np.ndarray], shape: Architecture) -> np.ndarray:
    """Join estimates.

    Args:
        members: weights of each estimate, float32 [num_params].
        shape: their layer widths, with at least one hidden layer.

    Returns:
        float32 [num_params of `mean_shape`].
    """
    layers = list(zip(*(shape.unflatten(member) for member in members), strict=True))
    (first, *between), last = layers[:-1], layers[-1]
    count = np.float32(len(members))
    return flatten(
        [
            (np.concatenate([matrix for matrix, _ in first], axis=1), np.concatenate([bias for _, bias in first])),
            *((np.stack([matrix for matrix, _ in one]), np.concatenate([bias for _, bias in one])) for one in between),
            (np.concatenate([matrix for matrix, _ in last]) / count, np.mean([bias for _, bias in last], axis=0)),
        ]
    )


def mean_members(joint: np.ndarray, shape: Architecture, num_members: int) -> np.ndarray:
    """The estimates that `mean_of` has joined, but for rounding and for their own last biases, which are their mean.

    Args:
        joint: float32 [num_params of `mean_shape`].
        shape: layer widths of an estimate.
        num_members: how many there are.

    Returns:
        float32 [num_members, num_params].
    """
    first, *between, (last, last_bias) = mean_shape(shape, num_members).unflatten(joint)
    matrices = [np.split(first[0], num_members, axis=1), *(matrix for matrix, _ in between)]
    biases = [np.split(bias, num_members) for _, bias in (first, *between)]
    outputs = np.split(num_members * last, num_members)

    def member(number: int) -> np.ndarray:
        hidden = [(matrix[number], bias[number]) for matrix, bias in zip(matrices, biases, strict=True)]
        return flatten([*hidden, (outputs[number], last_bias)])

    return np.stack([member(number) for number in range(num_members)])
