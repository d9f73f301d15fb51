"""Policies of given weights, on features as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.host.tasks.task import get_task
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy


def linear_policy(task: str, features: Sequence[str], weights: Sequence[float], hidden: tuple[int, ...] = ()) -> Policy:
    """A policy with these weights, the bias last; features are scaled by nothing but the logarithm.

    With ``hidden`` layers it is linear but for these.
    """
    count = len(features)
    scaling = Normalisation(tuple(features), np.zeros(count, np.float32), np.ones(count, np.float32))
    architecture = Architecture((get_task(task).actions.num_inputs(count), *hidden, 1))
    return Policy(task, scaling, architecture, np.array(weights, np.float32))


def write_policy(folder: Path, origin: Mapping[str, Any], features: Sequence[str] = ("a", "b")) -> Path:
    """Write a policy of this provenance that decides nothing of interest; its folder is returned."""
    policy = linear_policy("inline-size", features, [0.0] * (len(features) + 1))
    save_policy(replace(policy, origin=dict(origin)), folder)
    return folder
