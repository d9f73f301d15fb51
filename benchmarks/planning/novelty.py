"""How often the trees know an evaluation: a process in which the known attracts, fitted to each module's evaluations.

Candidates of one generation are alike, so many of them lead a compiler to the very same object. The n-th evaluation of
a module, after k different outcomes, has a new outcome with probability ``(strength + discount * k) / (strength + n)``
and else one of the known ones, more often seen ones more often (Pitman and Yor's process). So the number of outcomes
grows as a power of the number of evaluations, and populations larger than the measured ones can be drawn. That is an
extrapolation, not a measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_DISCOUNTS = np.linspace(0.0, 0.95, 20)
_STRENGTHS = np.geomspace(0.05, 200.0, 40)


@dataclass(frozen=True)
class Novelty:
    """How fast new outcomes come.

    Attributes:
        discount: power with which their number grows, 0 to below 1.
        strength: how many evaluations pass before the known ones count.
    """

    discount: float
    strength: float

    def chance(self, num_seen: int, num_different: int) -> float:
        """Probability that the next evaluation of a module has a new outcome."""
        return (self.strength + self.discount * num_different) / (self.strength + num_seen)


class Outcomes:
    """Outcomes of one module under one training's candidates, numbered from 0 as they first appear."""

    def __init__(self, novelty: Novelty) -> None:
        self._novelty = novelty
        self._seen: list[int] = []
        self._counts: list[int] = []

    def draw(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """The next ones, int64 [num]."""
        seen, counts, discount = self._seen, self._counts, self._novelty.discount
        first = len(seen)
        uniform = rng.random((num, 3)).tolist()
        for fresh, which, kept in uniform:
            n = len(seen)
            if not n or fresh < self._novelty.chance(n, len(counts)):
                seen.append(len(counts))
                counts.append(1)
                continue
            outcome = seen[int(which * n)]  # each as often as it was seen ...
            while kept * counts[outcome] < discount:  # ... less the discount
                which, kept = rng.random(2).tolist()
                outcome = seen[int(which * n)]
            seen.append(outcome)
            counts[outcome] += 1
        return np.array(seen[first:], np.int64)


def fit_novelty(fresh: Sequence[bool]) -> Novelty:
    """The most likely process behind evaluations of a module in their order.

    Args:
        fresh: whether each had a new outcome; the first always has.

    Raises:
        ValueError: fewer than two.
    """
    if len(fresh) < 2:
        raise ValueError("the module was not evaluated twice")
    new = np.array(fresh[1:], np.float64)
    seen, different = np.arange(1.0, len(fresh)), np.cumsum(fresh[:-1]).astype(np.float64)
    best = (-np.inf, 0.0, 0.0)
    for discount in _DISCOUNTS:
        for strength in _STRENGTHS:
            chance = (strength + discount * different) / (strength + seen)
            likelihood = float(np.where(new > 0, np.log(chance), np.log1p(-np.minimum(chance, 1.0 - 1e-12))).sum())
            best = max(best, (likelihood, float(discount), float(strength)))
    return Novelty(round(best[1], 4), round(best[2], 4))
