"""Growth and saving of a call as two outputs of a network, and the policy's one output that follows from them."""

import numpy as np

from mlgo.policy.network import Architecture, flatten


def cost_shape(shape: Architecture) -> Architecture:
    """Layer widths of a network of costs, by those of its policy."""
    return Architecture((*shape.widths[:-1], 2))


def as_costs(policy: np.ndarray, shape: Architecture) -> np.ndarray:
    """Costs that lead to the policy's answers: its logit is all growth, and nothing is known of what a callee saves.

    Args:
        policy: float32 [num_params].
        shape: its layer widths.

    Returns:
        float32 [num_params of `cost_shape`].
    """
    *hidden, (matrix, bias) = shape.unflatten(policy)
    return flatten([*hidden, (np.hstack([-matrix, 0.0 * matrix]), np.concatenate([-bias, 0.0 * bias]))])


def as_policy(costs: np.ndarray, shape: Architecture) -> np.ndarray:
    """The policy whose logit is what both outputs save together: minus growth and saving.

    Args:
        costs: float32 [num_params of `cost_shape`].
        shape: layer widths of the policy.

    Returns:
        float32 [num_params].
    """
    *hidden, (matrix, bias) = cost_shape(shape).unflatten(costs)
    return flatten([*hidden, (-matrix.sum(axis=1, keepdims=True), -bias.sum(keepdims=True))])
