"""Imitation of given choices: at each step any of those not yet made will do, and then the stop."""

from collections.abc import Sequence

import numpy as np

from mlgo.jit.choices.rollout import Episode
from mlgo.learn.bc import CloneData


def demonstrations(episodes: Sequence[Sequence[Episode]]) -> CloneData:
    """Steps of all episodes, as cloning takes them; each unit has the same total weight.

    A unit that takes many steps, or has many orders, would otherwise rule.

    Args:
        episodes: those of each unit.
    """
    per_unit = [[one for one in of_unit if len(one.actions)] for of_unit in episodes]
    per_unit = [of_unit for of_unit in per_unit if of_unit]
    if not per_unit:
        return CloneData(np.zeros((0, 1, 1), np.float16), np.zeros(0, np.int64))
    inputs = np.concatenate([one.inputs for of_unit in per_unit for one in of_unit])
    actions = np.concatenate([one.actions for of_unit in per_unit for one in of_unit])
    steps = np.array([sum(len(one.actions) for one in of_unit) for of_unit in per_unit])
    weights = np.repeat(1.0 / steps, steps) * (steps.sum() / len(steps))
    return CloneData(inputs.astype(np.float16), actions, weights.astype(np.float32))
