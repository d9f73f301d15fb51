"""The best choice for units: all subsets where there are few candidates, else hill climbing."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mlgo.base.seeding import generator
from mlgo.jit.compiler import ChoiceCompiler, CompiledUnit, Decisions, Outcome

Search = Generator[list[Decisions], list[Outcome], None]
"""Yields choices to try, and is sent their outcomes."""

_AT_ONCE = 64
"""So many subsets are tried before failures are looked at."""

_MAX_FAILURES = 10
"""So many failed compiles of a unit, if they are half of all, end its search, as training no longer draws it then."""


@dataclass(frozen=True)
class Label:
    """What a search has found.

    Attributes:
        best: the compile with the lowest score; of equal ones the one with fewest eliminations, then the first tried.
        exhaustive: whether every subset of the viable candidates was tried; not of a unit that kept failing.
        num_tried: choices tried, the baselines included.
        num_failed: compiles that failed.
        effects: of each viable candidate, by position.
    """

    best: CompiledUnit
    exhaustive: bool
    num_tried: int
    num_failed: int
    effects: dict[int, "Effect"]


@dataclass(frozen=True)
class Effect:
    """What eliminating one candidate does to the score, whatever else is eliminated.

    Attributes:
        mean_change: of the score, over all pairs of choices that were tried and differ in this candidate alone; NaN
            without any.
        num_pairs: such pairs.
    """

    mean_change: float
    num_pairs: int


def find_labels(
    compiler: ChoiceCompiler, units: Sequence[str], max_exhaustive: int, max_trials: int, seed: int
) -> list[Label | None]:
    """Search for the lowest score of each unit; the searches go on side by side, so that units can share compiles.

    Hill climbing flips one candidate at a time, in random order, and keeps what lowers the score; it starts from
    nothing, from the built-in heuristic's choice, and then from random choices, until the trials are used up.

    Returns:
        The labels in the order of the units; None for a unit that does not compile without eliminations.
    """
    baselines = compiler.compile_many([(unit, way) for unit in units for way in ((), None)])
    tries = [
        _Tries(none, heuristic, max_exhaustive) if isinstance(none, CompiledUnit) else None
        for none, heuristic in zip(baselines[::2], baselines[1::2], strict=True)
    ]
    searches = {
        unit: one.search(max_trials, generator(seed, "cse", "label", unit))
        for unit, one in zip(units, tries, strict=True)
        if one is not None
    }
    wanted = {unit: choices for unit, search in searches.items() if (choices := next(search, None)) is not None}
    while wanted:
        requests = [(unit, choice) for unit, choices in wanted.items() for choice in choices]
        outcomes = iter(compiler.compile_many(requests))
        answers = {unit: [next(outcomes) for _ in choices] for unit, choices in wanted.items()}
        wanted = {}
        for unit, found in answers.items():
            try:
                wanted[unit] = searches[unit].send(found)
            except StopIteration:
                continue
    return [one.label() if one is not None else None for one in tries]


class _Tries:
    """What was tried of a unit, and what came of it."""

    def __init__(self, none: CompiledUnit, heuristic: Outcome, max_exhaustive: int) -> None:
        self._heuristic = heuristic
        self._viable = [int(position) for position in np.flatnonzero(none.candidates.viable)]
        self._scores: dict[Decisions, float] = {(): none.score}
        self._best, self._num_failed = none, 0
        self._is_exhaustive = len(self._viable) <= max_exhaustive

    @property
    def _keeps_failing(self) -> bool:
        return self._num_failed >= max(_MAX_FAILURES, len(self._scores) / 2)

    def label(self) -> Label:
        """The best of all."""
        best, heuristic = self._best, self._heuristic
        if (
            isinstance(heuristic, CompiledUnit) and heuristic.score < best.score
        ):  # it may do what no list of positions can
            best = heuristic
        effects = {position: self._effect(position) for position in self._viable}
        return Label(best, self._is_exhaustive, len(self._scores) + 1, self._num_failed, effects)

    def _effect(self, position: int) -> Effect:
        changes = [
            after - before
            for choice, before in self._scores.items()
            if position not in choice
            and np.isfinite(before)
            and np.isfinite(after := self._scores.get(tuple(sorted((*choice, position))), np.inf))
        ]
        return Effect(float(np.mean(changes)) if changes else float("nan"), len(changes))

    def search(self, max_trials: int, rng: np.random.Generator) -> Search:
        """Try all subsets, or climb."""
        if self._is_exhaustive:
            subsets = [one for size in range(1, len(self._viable) + 1) for one in combinations(self._viable, size)]
            for start in range(0, len(subsets), _AT_ONCE):
                if self._keeps_failing:
                    self._is_exhaustive = False
                    return
                some = subsets[start : start + _AT_ONCE]
                self._note(some, (yield some))
            return
        starts = self._starts(rng)
        while len(self._scores) < min(max_trials, 2 ** len(self._viable)) and not self._keeps_failing:
            yield from self._climb(next(starts), max_trials, rng)

    def _starts(self, rng: np.random.Generator) -> Iterator[Decisions]:
        yield ()
        if isinstance(self._heuristic, CompiledUnit) and self._heuristic.requested is not None:
            yield tuple(sorted(set(self._heuristic.requested) & set(self._viable)))
        while True:
            yield tuple(position for position in self._viable if rng.random() < 0.5)

    def _climb(self, here: Decisions, max_trials: int, rng: np.random.Generator) -> Search:
        if here not in self._scores:
            self._note([here], (yield [here]))
        improved = True
        while improved:
            improved = False
            for position in rng.permutation(self._viable):
                flipped = tuple(sorted(set(here) ^ {int(position)}))
                if flipped not in self._scores:
                    if len(self._scores) >= max_trials or self._keeps_failing:
                        return
                    self._note([flipped], (yield [flipped]))
                if self._scores[flipped] < self._scores[here]:
                    here, improved = flipped, True

    def _note(self, choices: list[Decisions], outcomes: list[Outcome]) -> None:
        """Keep scores, infinite where a compile failed."""
        for choice, outcome in zip(choices, outcomes, strict=True):
            if not isinstance(outcome, CompiledUnit):
                self._scores[choice], self._num_failed = float("inf"), self._num_failed + 1
                continue
            self._scores[choice] = outcome.score
            if (outcome.score, len(choice)) < (self._best.score, len(self._best.requested or ())):
                self._best = outcome
