"""Functions of several compiles of one module, side by side: how large each is, and what its disappearance saves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.host.session import CallAttribution


@dataclass(frozen=True)
class Functions:
    """What compiles of one module tell of its functions.

    A function that no compile's object has tells nothing. One that the optimizer has renamed or split off
    (``f.llvm.123``, ``f.part.0``) has a name, and so a column, of its own.

    Attributes:
        sizes: float64 [num_compiles, num_functions], bytes; -1 where the object does not have the function.
        present: bool [num_compiles, num_functions], where it has.
        gone: float64 [num_compiles, num_functions], minus the mean of the function's known sizes where it is gone,
            else 0.
        asked: bool [num_compiles, num_functions], where it is known whether the function is gone.
        callers: column of the function that has the call, int64 [num_questions] for each compile that tells.
    """

    sizes: np.ndarray
    present: np.ndarray
    gone: np.ndarray
    asked: np.ndarray
    callers: tuple[np.ndarray | None, ...]
    callees: tuple[np.ndarray | None, ...]


def side_by_side(told: Sequence[CallAttribution | None]) -> Functions:
    """Join what the compiles of one module tell; None is a compile that tells nothing."""
    names = np.unique(np.concatenate([np.zeros(0, np.uint64), *(one.names for one in told if one is not None)]))
    places = [None if one is None else np.searchsorted(names, one.names) for one in told]
    sizes = np.full((len(told), len(names)), -1.0)
    for row, one, columns in zip(sizes, told, places, strict=True):
        if one is not None:
            row[columns] = one.sizes
    present = sizes >= 0
    num_present = present.sum(axis=0)
    mean = np.where(present, sizes, 0).sum(axis=0) / np.maximum(num_present, 1)
    pairs = list(zip(told, places, strict=True))
    return Functions(
        sizes,
        present,
        np.where(present, 0.0, -mean),
        (num_present > 0) & np.array([one is not None for one in told], bool)[:, None],
        tuple(None if one is None or columns is None else columns[one.callers] for one, columns in pairs),
        tuple(None if one is None or columns is None else columns[one.callees] for one, columns in pairs),
    )
