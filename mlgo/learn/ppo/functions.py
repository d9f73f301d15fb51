"""Advantages of inlining decisions by the sizes of their own functions.

A module's size is the sum of its functions'. A decision acts on two of them: the caller grows by what is inlined, and
the callee disappears with its last call. So a decision is judged by these two alone, each compared with the same
function in the other episodes of the module (leave one out, as in `siblings`), and not by some hundred others.
"""

from collections.abc import Sequence

import numpy as np

from mlgo.errors import ConfigError
from mlgo.learn.credit import side_by_side
from mlgo.learn.ppo.siblings import clipped
from mlgo.learn.sampled import Sampled


def advantages_of_functions(episodes: Sequence[Sampled], limit: float) -> np.ndarray:
    """Bytes that a decision's two functions are smaller than in the other episodes, in root mean squares.

    Args:
        episodes: with ``credit``.
        limit: advantages stay within plus and minus this.

    Returns:
        float64 [num_questions] of all episodes, one after another; 0 where the two came out alike in all.

    Raises:
        ConfigError: a compile does not tell its functions.
    """
    of_subject: dict[str, list[int]] = {}
    for number, one in enumerate(episodes):
        if one.credit is None:
            raise ConfigError("ppo.baseline functions: the compiles do not tell their functions; choose siblings")
        of_subject.setdefault(one.subject, []).append(number)
    found = [np.zeros(0)] * len(episodes)
    for numbers in of_subject.values():
        told = side_by_side([episodes[number].credit for number in numbers])
        grown, saved = _over_others(told.sizes, told.present), _over_others(told.gone, told.asked)
        for row, (number, callers, callees) in enumerate(zip(numbers, told.callers, told.callees, strict=True)):
            found[number] = -(grown[row, callers] + saved[row, callees])
    advantages = np.concatenate([np.zeros(0), *found])
    return clipped(advantages, advantages != 0.0, limit)


def _over_others(values: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """Each value less the mean of the others of its column; 0 for an only one, and where there is none.

    Args:
        values: float64 [num_compiles, num_functions].
        holds: bool [num_compiles, num_functions], where there is a value.
    """
    count = holds.sum(axis=0)
    total = np.where(holds, values, 0.0).sum(axis=0)
    found: np.ndarray = np.where(holds & (count > 1), (count * values - total) / np.maximum(count - 1, 1), 0.0)
    return found
