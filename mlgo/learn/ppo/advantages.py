"""Advantages of answers: over other episodes, and by the sizes of a decision's functions."""

from collections.abc import Sequence

import numpy as np

from mlgo.errors import ConfigError
from mlgo.learn.base import Trajectory, side_by_side


def advantages_over_siblings(subjects: Sequence[str], rewards: np.ndarray, limit: float) -> np.ndarray:
    """Reward of each episode, less the mean of the others of its subject, in root mean squares of all that differ.

    float64 [num_episodes]; 0 for an only episode, and where all of a subject came out alike.
    """
    _, of = np.unique(np.asarray(subjects), return_inverse=True)
    count, total = np.bincount(of)[of], np.bincount(of, rewards)[of]
    highest, lowest = np.full(len(of), -np.inf), np.full(len(of), np.inf)
    np.maximum.at(highest, of, rewards)
    np.minimum.at(lowest, of, rewards)
    differs = (highest > lowest)[of]
    advantages = np.where(differs, (count * rewards - total) / np.maximum(count - 1, 1), 0.0)
    return clipped(advantages, differs, limit)


def clipped(advantages: np.ndarray, differs: np.ndarray, limit: float) -> np.ndarray:
    """Advantages, float64 [num], in root mean squares of those that ``differs`` names, within the limit."""
    if not differs.any():
        return advantages
    return np.clip(advantages / np.sqrt(np.mean(advantages[differs] ** 2)), -limit, limit)


def advantages_of_functions(episodes: Sequence[Trajectory], limit: float) -> np.ndarray:
    """Bytes that a decision's two functions are smaller than in the other episodes, in root mean squares of the module.

    Then divided by the module's number of questions, and multiplied by the mean number: so each module weighs as much,
    and one with thousands of questions does not outweigh dozens of small ones.

    float64 [num_questions] of all episodes, one after another; 0 where the two came out alike in all.
    """
    of_each: dict[str, list[int]] = {}
    for number, one in enumerate(episodes):
        if one.credit is None:
            raise ConfigError("ppo.baseline functions: the compiles do not tell their functions; choose siblings")
        of_each.setdefault(one.key, []).append(number)
    found = [np.zeros(0)] * len(episodes)
    for numbers in of_each.values():
        functions = side_by_side([episodes[number].credit for number in numbers])
        grown = _over_others(functions.sizes, functions.present)
        saved = _over_others(functions.gone, functions.asked)
        smaller = [
            -(grown[row, functions.callers[row]] + saved[row, functions.callees[row]]) for row in range(len(numbers))
        ]
        joined = np.concatenate(smaller)
        advantages = clipped(joined, joined != 0.0, limit) / max(1, len(joined))
        parts = np.split(advantages, np.cumsum([len(part) for part in smaller])[:-1])
        for number, part in zip(numbers, parts, strict=True):
            found[number] = part
    every = np.concatenate([np.zeros(0), *found])
    return every * (len(every) / max(1, len(of_each)))


def _over_others(values: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """Each value less the mean of the others of its column; 0 for an only one, and where there is none."""
    count = holds.sum(axis=0)
    total = np.where(holds, values, 0.0).sum(axis=0)
    return np.where(holds & (count > 1), (count * values - total) / np.maximum(count - 1, 1), 0.0)
