"""One root seed, many independent named generators."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator that belongs to a purpose.

    The same seed and names give the same stream on every machine, whatever other generators were made before.

    Args:
        seed: root seed of the run, 0 or greater.
        names: path of the purpose, for example ``("es", "perturb", 3)``.
    """
    digest = hashlib.sha256("\0".join(str(name) for name in names).encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


def sample(
    items: Sequence[Item], count: int, seed: int, *names: str | int, turns: Sequence[str] | None = None
) -> list[Item]:
    """Draw ``count`` items without replacement, in their given order; all of them when there are no more.

    Args:
        names: path of the purpose, see `generator`.
        turns: group of each item, if groups take turns: then each gives as many as any other, or all it has. Without
            them each item is as likely as any other.
    """
    if len(items) <= count:
        return list(items)
    rng = generator(seed, "sample", *names)
    if turns is None:
        chosen = rng.choice(len(items), count, replace=False).tolist()
    else:
        taken: Counter[str] = Counter()
        turn = {}
        for i in rng.permutation(len(items)).tolist():
            turn[i] = taken[turns[i]]
            taken[turns[i]] += 1
        # Sorting is stable, so groups come in random order within a turn.
        chosen = sorted(rng.permutation(len(items)).tolist(), key=turn.__getitem__)[:count]
    return [items[i] for i in sorted(chosen)]
