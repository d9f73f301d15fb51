"""The best choice for a unit: all subsets where there are few candidates, else hill climbing."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mlgo.cse.problem import Compiled, CseCompiler, Decisions


@dataclass(frozen=True)
class Label:
    """What a search has found.

    Attributes:
        best: the compile with the lowest score; of equal ones the one with fewest eliminations, then the first tried.
        exhaustive: whether every subset of the viable candidates was tried.
        num_tried: subsets tried, the baselines included.
        num_failed: compiles that failed.
    """

    best: Compiled
    exhaustive: bool
    num_tried: int
    num_failed: int


def label(
    compiler: CseCompiler, unit: str, max_exhaustive: int, max_trials: int, rng: np.random.Generator
) -> Label | None:
    """Search for the lowest score.

    Hill climbing flips one candidate at a time, in random order, and keeps what lowers the score; it starts from
    nothing, from the built-in heuristic's choice, and then from random choices, until the trials are used up.

    Args:
        compiler: compiles the unit.
        unit: its name.
        max_exhaustive: most viable candidates of which all subsets are tried.
        max_trials: most compiles of a hill climb.
        rng: order of flips, and random starts.

    Returns:
        None if the unit does not compile without eliminations.
    """
    none, heuristic = compiler.compile(unit, ()), compiler.compile(unit, None)
    if not isinstance(none, Compiled):
        return None
    viable = [int(position) for position in np.flatnonzero(none.candidates.viable)]
    search = _Search(compiler, unit, none)
    if len(viable) <= max_exhaustive:
        for subset in _subsets(viable):
            search.score(subset)
    else:
        starts = _starts(viable, heuristic.requested if isinstance(heuristic, Compiled) else None, rng)
        while search.num_tried < min(max_trials, 2 ** len(viable)):
            _climb(search, next(starts), viable, max_trials, rng)
    best = search.best
    if isinstance(heuristic, Compiled) and heuristic.score < best.score:  # it may do what no list of positions can
        best = heuristic
    return Label(best, len(viable) <= max_exhaustive, search.num_tried + 1, search.num_failed)


class _Search:
    """Remembers what was tried."""

    def __init__(self, compiler: CseCompiler, unit: str, none: Compiled) -> None:
        self._compiler, self._unit = compiler, unit
        self._scores: dict[Decisions, float] = {(): none.score}
        self.best, self.num_failed = none, 0

    @property
    def num_tried(self) -> int:
        return len(self._scores)

    def score(self, subset: Decisions) -> float:
        """Infinite where the compile fails."""
        if subset not in self._scores:
            outcome = self._compiler.compile(self._unit, subset)
            if isinstance(outcome, Compiled):
                self._scores[subset] = outcome.score
                if (outcome.score, len(subset)) < (self.best.score, len(self.best.requested or ())):
                    self.best = outcome
            else:
                self._scores[subset], self.num_failed = float("inf"), self.num_failed + 1
        return self._scores[subset]


def _subsets(viable: list[int]) -> Iterator[Decisions]:
    for size in range(1, len(viable) + 1):
        yield from combinations(viable, size)


def _starts(viable: list[int], heuristic: Decisions | None, rng: np.random.Generator) -> Iterator[Decisions]:
    yield ()
    if heuristic is not None:
        yield tuple(sorted(set(heuristic) & set(viable)))
    while True:
        yield tuple(position for position in viable if rng.random() < 0.5)


def _climb(search: _Search, start: Decisions, viable: list[int], max_trials: int, rng: np.random.Generator) -> None:
    here, score = start, search.score(start)
    improved = True
    while improved:
        improved = False
        for position in rng.permutation(viable):
            if search.num_tried >= max_trials:
                return
            flipped = tuple(sorted(set(here) ^ {int(position)}))
            if (after := search.score(flipped)) < score:
                here, score, improved = flipped, after, True
