"""What a policy sees of a choice: features of the candidates as numbers between 0 and 1, and figures of the method."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions import Subset
from mlgo.jit.outcome import VIABLE, Candidates, CompiledUnit, Decisions, Failed, Outcome


@dataclass(frozen=True)
class FeatureColumn:
    """How one feature enters a network."""

    name: str  # of the feature
    # `flag` is 0 or 1. `category` becomes one input for each of its values. `count` becomes `log(1 + x) / log(1 +
    # cap)`. `weight` is a count whose negative values are overflows, and so stand for the cap.
    kind: Literal["flag", "category", "count", "weight"]
    cap: int = 1  # number of categories, or the count that becomes 1; larger ones do, too

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs it becomes."""
        return tuple(f"{self.name}_{i}" for i in range(self.cap)) if self.kind == "category" else (self.name,)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Map ``int64 [num]`` to ``float32 [num, num_inputs]`` within 0 and 1."""
        if self.kind == "flag":
            return (values != 0).astype(np.float32)[:, None]
        if self.kind == "category":
            return np.eye(self.cap, dtype=np.float32)[np.where((values < 0) | (values >= self.cap), 0, values)]
        lowest = np.where(values < 0, self.cap, values) if self.kind == "weight" else np.maximum(values, 0)
        return (np.log1p(np.minimum(lowest, self.cap)) / np.log1p(self.cap)).astype(np.float32)[:, None]


_WEIGHT_CAP = 3_269_016

_FLAGS = (VIABLE, "live_across_call", "const", "shared_const", "make_cse", "has_call", "containable")
_CAPS = {
    **{"cost_ex": 80, "cost_sz": 54, "use_count": 567, "def_count": 189, "distinct_locals": 5, "local_occurrences": 6},
    **{"bb_count": 1000, "block_spread": 1000, "enreg_count": 734},
}
JIT_COLUMNS = {
    "type": FeatureColumn("type", "category", 7),  # other, int, long, float, double, struct, SIMD
    **{name: FeatureColumn(name, "flag") for name in _FLAGS},
    **{name: FeatureColumn(name, "count", cap) for name, cap in _CAPS.items()},
    **{name: FeatureColumn(name, "weight", _WEIGHT_CAP) for name in ("use_wt_cnt", "def_wt_cnt")},
}
"""By the names that the JIT prints."""

_UNKNOWN_CAP = 1 << 20
"""For features that are not in this table: later versions may report more."""


def columns_for(names: Sequence[str]) -> tuple[FeatureColumn, ...]:
    """Columns of the features that a JIT reports, in its order."""
    return tuple(JIT_COLUMNS.get(name) or FeatureColumn(name, "count", _UNKNOWN_CAP) for name in names)


def inputs_of(columns: Sequence[FeatureColumn], names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Inputs of all candidates, float32 [num_candidates, num_inputs]."""
    missing = [column.name for column in columns if column.name not in names]
    if missing:
        raise PolicyError(f"the compiler does not tell {', '.join(missing)}; train a policy for this compiler")
    parts = [column(values[:, names.index(column.name)]) for column in columns]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(values), 0), np.float32)


RECORD = ("num_candidates", "num_viable", "num_chosen", "score", "code_bytes")
"""What is told of the unit as a whole: counts as shares of the most candidates that the JIT keeps, 64, and score and
size of the code without any elimination by their order of magnitude."""

SUBSET = Subset()
"""What is chosen from."""

_MOST_CANDIDATES = 64
_SCORE_CAP, _BYTES_CAP = 1e7, 1e6


@dataclass(frozen=True)
class Choice:
    """Candidates of a unit, some of which are chosen."""

    none: CompiledUnit  # the unit compiled without any elimination
    latest: CompiledUnit  # the same with what is chosen, or with all of that but the last
    chosen: Decisions = ()  # positions in the order of choosing

    def choosing(self, position: int) -> "Choice":
        """The same with one more candidate."""
        return replace(self, chosen=(*self.chosen, position))

    @property
    def candidates(self) -> Candidates:
        """As of the latest compile."""
        return self.latest.candidates

    def can_apply(self) -> np.ndarray:
        """Candidates that are viable and not yet chosen, bool [num_candidates]."""
        free = self.candidates.viable.copy()
        free[[position for position in self.chosen if position < len(free)]] = False
        return free

    def record(self) -> np.ndarray:
        """The unit as a whole, float32 [len(RECORD)] within 0 and 1; see `RECORD`."""
        shares = np.array([len(self.candidates), self.candidates.num_viable, len(self.chosen)]) / _MOST_CANDIDATES
        sizes = [
            np.log1p(self.none.score) / np.log1p(_SCORE_CAP),
            np.log1p(self.none.code_bytes) / np.log1p(_BYTES_CAP),
        ]
        return np.clip([*shares, *sizes], 0.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class Observer:
    """Shows choices in a fixed form."""

    columns: tuple[FeatureColumn, ...]  # features of candidates, and how they enter
    max_candidates: int  # rows; a unit with more candidates does not fit

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

    def can_go_on(self, choice: Choice) -> bool:
        """Whether something is left to choose, of no more candidates than fit."""
        return len(choice.candidates) <= self.max_candidates and bool(choice.can_apply().any())


def skip_reason(none: Outcome, heuristic: Outcome, min_viable: int, max_candidates: int) -> str:
    """Why a unit with these baselines is left out; empty if it is not."""
    for way, outcome in (("without elimination", none), ("under the heuristic", heuristic)):
        if isinstance(outcome, Failed):
            return f"fails {way}: {outcome.kind}"
        if outcome.score <= 0:
            return f"scores nothing {way}"
    assert isinstance(none, CompiledUnit)
    if len(none.candidates) > max_candidates:
        return f"too many candidates: {len(none.candidates)}"
    few = none.candidates.num_viable < min_viable
    return f"too few viable candidates: {none.candidates.num_viable}" if few else ""
