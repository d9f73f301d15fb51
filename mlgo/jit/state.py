"""Where a choice stands, and what a policy sees of it."""

from dataclasses import dataclass, replace

import numpy as np

from mlgo.host.actions import Subset
from mlgo.jit.columns import FeatureColumn, inputs_of
from mlgo.jit.compiler import Candidates, CompiledUnit, Decisions

RECORD = ("num_candidates", "num_viable", "num_chosen", "score", "code_bytes")
"""What is told of the unit as a whole: counts as shares of the most candidates that the JIT keeps, 64, and score and
size of the code without any elimination by their order of magnitude."""

SUBSET = Subset()
"""What is chosen from."""

_MOST_CANDIDATES = 64
_SCORE_CAP, _BYTES_CAP = 1e7, 1e6


@dataclass(frozen=True)
class Choice:
    """Candidates of a unit, some of which are chosen.

    Attributes:
        none: the unit compiled without any elimination.
        candidates: as of the latest compile.
        chosen: positions in the order of choosing.
    """

    none: CompiledUnit
    candidates: Candidates
    chosen: Decisions = ()

    def choosing(self, position: int) -> "Choice":
        """The same with one more candidate."""
        return replace(self, chosen=(*self.chosen, position))

    def can_apply(self) -> np.ndarray:
        """Candidates that are viable and not yet chosen, bool [num_candidates]."""
        free = self.candidates.viable.copy()
        free[[position for position in self.chosen if position < len(free)]] = False
        return free

    def record(self) -> np.ndarray:
        """The unit as a whole, float32 [len(RECORD)] within 0 and 1; see `RECORD`."""
        shares = np.array([len(self.candidates), self.candidates.viable.sum(), len(self.chosen)]) / _MOST_CANDIDATES
        sizes = [
            np.log1p(self.none.score) / np.log1p(_SCORE_CAP),
            np.log1p(self.none.code_bytes) / np.log1p(_BYTES_CAP),
        ]
        return np.clip([*shares, *sizes], 0.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class Observer:
    """Shows choices in a fixed form.

    Attributes:
        columns: features of candidates, and how they enter.
        max_candidates: rows; a unit with more candidates does not fit.
    """

    columns: tuple[FeatureColumn, ...]
    max_candidates: int

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs of a candidate; the first tells whether it can be applied."""
        return ("can_apply", *(name for column in self.columns for name in column.inputs))

    def candidates(self, choice: Choice) -> np.ndarray:
        """A row for each candidate, zeros below: float32 [max_candidates, len(features)] within 0 and 1."""
        rows = np.zeros((self.max_candidates, len(self.features)), np.float32)
        found = choice.candidates
        if not len(found):  # a compiler with nothing to choose may name no features either
            return rows
        rows[: len(found), 0] = choice.can_apply()
        rows[: len(found), 1:] = inputs_of(self.columns, found.names, found.values)
        return rows

    def allowed(self, choice: Choice, *, stop: bool = True) -> np.ndarray:
        """Which actions are: bool [max_candidates + 1], the last one is to stop."""
        left = np.zeros(self.max_candidates, bool)
        left[: len(choice.candidates)] = choice.can_apply()
        return SUBSET.legal(left, stop=stop)

    def columns_of(self, choice: Choice) -> np.ndarray:
        """Inputs of a network that scores each action: float32 [max_candidates + 1, num_inputs].

        A row holds the candidate's inputs, the record of the unit, and 1 in the last place for the action to stop,
        which has no candidate.
        """
        return SUBSET.rows(self.candidates(choice), choice.record())

    @property
    def num_inputs(self) -> int:
        return SUBSET.num_inputs(len(self.features) + len(RECORD))


def fits(candidates: Candidates, min_viable: int, max_candidates: int) -> bool:
    """Whether a unit is eligible: enough candidates that can be applied, and not too many in all."""
    return int(candidates.viable.sum()) >= min_viable and len(candidates) <= max_candidates
