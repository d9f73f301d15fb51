"""Cuts a program into groups of modules that are small enough to be compiled as one, and export little."""

from collections.abc import Mapping, Sequence

import numpy as np


def cut(names: Sequence[frozenset[bytes]], bodies: Sequence[Mapping[int, int]], limit: int) -> list[list[int]]:
    """Merge modules to groups, greedily: always the two that share the most names and are small enough together.

    Names are counted for each pair of modules of two groups.

    A name that two groups share is one that both must keep: a function of one that the other calls, or a copy that both
    have. Merged, it may become internal.

    Args:
        names: of each module, names of functions and data that it defines or needs.
        bodies: of each module, length of each function by hash of its body; copies in a group count once.
        limit: of the length of a group. A longer module stays alone.

    Returns:
        Numbers of the modules of each group, ascending; groups by their first module.
    """
    shared = _shared(names)
    groups: dict[int, list[int]] = {number: [number] for number in range(len(names))}
    lengths = {number: dict(of) for number, of in enumerate(bodies)}
    while shared.size:
        first, second = np.unravel_index(np.argmax(shared), shared.shape)
        if not shared[first, second]:
            break
        one, other = sorted((int(first), int(second)))
        together = lengths[one] | lengths[other]
        if sum(together.values()) > limit:
            shared[one, other] = shared[other, one] = 0
            continue
        shared[one] += shared[other]
        shared[one, one] = shared[one, other] = 0
        shared[:, one] = shared[one]
        shared[other] = shared[:, other] = 0
        groups[one] += groups.pop(other)
        lengths[one] = together
        del lengths[other]
    return [sorted(members) for _, members in sorted(groups.items())]


def _shared(names: Sequence[frozenset[bytes]]) -> np.ndarray:
    """How many names each two modules share, int64 [num_modules, num_modules], 0 on the diagonal."""
    import scipy.sparse as sp  # here, since it loads slowly and few commands merge

    numbers: dict[bytes, int] = {}
    columns = [[numbers.setdefault(name, len(numbers)) for name in sorted(of)] for of in names]
    rows = np.repeat(np.arange(len(names)), [len(of) for of in columns])
    flat = np.array([number for of in columns for number in of], np.int64)
    mentions = sp.csr_array((np.ones(len(flat), np.int64), (rows, flat)), (len(names), max(1, len(numbers))))
    shared: np.ndarray = (mentions @ mentions.T).toarray()
    np.fill_diagonal(shared, 0)
    return shared
