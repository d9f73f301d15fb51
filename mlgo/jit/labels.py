"""The best choice for a method: all subsets where there are few candidates, else hill climbing."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mlgo.base.seeding import generator
from mlgo.jit.compiler import ChoiceCompiler, compile_each
from mlgo.jit.outcome import CompiledUnit, Decisions, Failed, Outcome

_AT_ONCE = 64
"""So many subsets are tried before failures are counted."""

_MAX_FAILURES = 10
"""So many failed compiles of a unit, if they are half of all, end its search, as training no longer draws it then."""


@dataclass(frozen=True)
class Effect:
    """What eliminating one candidate does to the score, whatever else is eliminated."""

    # Of the score, over all pairs of choices that were tried and differ in this candidate alone; NaN without any.
    mean_change: float
    num_pairs: int  # such pairs


@dataclass(frozen=True)
class Label:
    """What a search has found."""

    # The compile with the lowest score; of equal ones the one with fewest eliminations, then the first tried.
    best: CompiledUnit
    exhaustive: bool  # whether every subset of the viable candidates was tried; not of a unit that kept failing
    num_tried: int  # choices tried, the baselines included
    num_failed: int
    effects: dict[int, Effect]  # of each viable candidate, by position


def find_label(compiler: ChoiceCompiler, unit: str, max_exhaustive: int, max_trials: int, seed: int) -> Label | None:
    """Search for the lowest score of a unit.

    Hill climbing flips one candidate at a time, in random order, and keeps what lowers the score; it starts from
    nothing, from the built-in heuristic's choice, and then from random choices, until the trials are used up.

    Returns:
        None for a unit that does not compile without eliminations.
    """
    none, heuristic = compile_each(compiler, unit)
    if isinstance(none, Failed):
        return None
    search = _Search(compiler, unit, none, heuristic)
    if len(search.viable) <= max_exhaustive:
        return search.label(exhaustive=search.try_all())
    search.climb(max_trials, generator(seed, "cse", "label", unit))
    return search.label(exhaustive=False)


class _Search:
    """Choices of a unit that were tried, with their scores: infinite where a compile failed."""

    def __init__(self, compiler: ChoiceCompiler, unit: str, none: CompiledUnit, heuristic: Outcome) -> None:
        self._compiler, self._unit, self._heuristic = compiler, unit, heuristic
        self.viable = [int(position) for position in np.flatnonzero(none.candidates.viable)]
        self._scores: dict[Decisions, float] = {(): none.score}
        self._best, self._num_failed = none, 0

    def label(self, *, exhaustive: bool) -> Label:
        """The best of all."""
        best, heuristic = self._best, self._heuristic
        if isinstance(heuristic, CompiledUnit) and heuristic.score < best.score:
            best = heuristic  # it may do what no list of positions can
        effects = {position: self._effect(position) for position in self.viable}
        return Label(best, exhaustive, len(self._scores) + 1, self._num_failed, effects)

    def _effect(self, position: int) -> Effect:
        changes = [
            after - before
            for choice, before in self._scores.items()
            if position not in choice
            and np.isfinite(before)
            and np.isfinite(after := self._scores.get(tuple(sorted((*choice, position))), np.inf))
        ]
        return Effect(float(np.mean(changes)) if changes else float("nan"), len(changes))

    def try_all(self) -> bool:
        """Try all subsets, the smallest first; tells whether none was left out because the unit keeps failing."""
        subsets = [one for size in range(1, len(self.viable) + 1) for one in combinations(self.viable, size)]
        for number, subset in enumerate(subsets):
            if number % _AT_ONCE == 0 and self._keeps_failing:
                return False
            self._score(subset)
        return True

    def climb(self, max_trials: int, rng: np.random.Generator) -> None:
        """Climb from one start after another."""
        starts = self._starts(rng)
        while len(self._scores) < min(max_trials, 2 ** len(self.viable)) and not self._keeps_failing:
            self._climb_from(next(starts), max_trials, rng)

    def _starts(self, rng: np.random.Generator) -> Iterator[Decisions]:
        yield ()
        if isinstance(self._heuristic, CompiledUnit):
            yield tuple(sorted(set(self._heuristic.requested) & set(self.viable)))
        while True:
            yield tuple(position for position in self.viable if rng.random() < 0.5)

    def _climb_from(self, here: Decisions, max_trials: int, rng: np.random.Generator) -> None:
        lowest, improved = self._score(here), True
        while improved:
            improved = False
            for position in rng.permutation(self.viable):
                flipped = tuple(sorted(set(here) ^ {int(position)}))
                if flipped not in self._scores and (len(self._scores) >= max_trials or self._keeps_failing):
                    return
                if (score := self._score(flipped)) < lowest:
                    here, lowest, improved = flipped, score, True

    @property
    def _keeps_failing(self) -> bool:
        return self._num_failed >= max(_MAX_FAILURES, len(self._scores) / 2)

    def _score(self, choice: Decisions) -> float:
        """Of a choice, compiled unless that was done before."""
        if choice not in self._scores:
            outcome = self._compiler.outcome(self._unit, choice)
            self._scores[choice] = outcome.score if isinstance(outcome, CompiledUnit) else float("inf")
            if isinstance(outcome, Failed):
                self._num_failed += 1
            elif (outcome.score, len(choice)) < (self._best.score, len(self._best.requested)):
                self._best = outcome
        return self._scores[choice]
