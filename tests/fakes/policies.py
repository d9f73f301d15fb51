"""Policies without hidden layers, on features as they are."""

from collections.abc import Sequence

import numpy as np

from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy


def linear_policy(task: str, features: Sequence[str], weights: Sequence[float]) -> Policy:
    """A policy with these weights, the bias last; features are scaled by nothing but the logarithm."""
    count = len(features)
    scaling = Normalisation(tuple(features), np.zeros(count, np.float32), np.ones(count, np.float32))
    return Policy(task, scaling, Architecture((len(weights) - 1, 1)), np.array(weights, np.float32))
