"""A compiler that is a formula, so that every score can be worked out by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mlgo.jit.outcome import Candidates, CompiledUnit, Decisions, Failed, Outcome
from mlgo.jit.state import FeatureColumn, Observer

NAMES = ("benefit", "cost")
OBSERVER = Observer(tuple(FeatureColumn(name, "count", 10) for name in NAMES), 4)


@dataclass
class AdditiveCompiler:
    """Scores ``base + sum of effects of what is chosen``; the heuristic takes the first candidate.

    Features of a candidate are its benefit and its cost; the effect is ``cost - benefit``. Failing choices are listed.
    """

    effects: Mapping[str, Sequence[tuple[int, int]]]
    base: float = 100.0
    not_viable: frozenset[tuple[str, int]] = frozenset()
    failing: frozenset[tuple[str, Decisions | None]] = frozenset()
    compiles: list[tuple[str, Decisions | None]] = field(default_factory=list)
    num_closed: int = 0

    def outcome(self, unit: str, decisions: Decisions | None) -> Outcome:
        self.compiles.append((unit, decisions))
        if (unit, decisions) in self.failing:
            return Failed("jit_error", "it was to fail")
        values = np.array(self.effects[unit], np.int64).reshape(-1, 2)
        viable = np.array([(unit, i) not in self.not_viable for i in range(len(values))], bool)
        chosen = ((0,) if len(values) else ()) if decisions is None else decisions
        performed = [i for i in dict.fromkeys(chosen) if i < len(values) and viable[i]]
        score = self.base + sum(int(values[i, 1] - values[i, 0]) for i in performed)
        return CompiledUnit(score, int(score), chosen, len(performed), Candidates(NAMES, values, viable))

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self.num_closed += 1


@dataclass(frozen=True)
class AdditiveSpec:
    """Opens one, also in another process."""

    effects: dict[str, tuple[tuple[int, int], ...]]
    failing: frozenset[tuple[str, Decisions | None]] = frozenset()

    def open(self) -> AdditiveCompiler:
        return AdditiveCompiler(self.effects, failing=self.failing)

    def key(self):
        return {"name": "superpmi"}

    def check(self):
        pass
