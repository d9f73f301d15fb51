"""A compiler that is a formula, so that every score can be worked out by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mlgo.jit.columns import FeatureColumn
from mlgo.jit.compiler import Candidates, CompiledUnit, Decisions, Failed, Outcome, Place, Unit

COLUMNS = {"benefit": FeatureColumn("benefit", "count", 10), "cost": FeatureColumn("cost", "count", 10)}


@dataclass
class AdditiveCompiler:
    """Scores ``base + sum of effects of what is chosen``; the heuristic takes the first candidate.

    Features of a candidate are its benefit and its cost; the effect is ``cost - benefit``. Failing choices are listed.
    """

    effects: Mapping[str, Sequence[tuple[int, int]]]
    base: float = 100.0
    static: bool = True
    ordered: bool = False
    not_viable: frozenset[tuple[str, int]] = frozenset()
    failing: frozenset[tuple[str, Decisions | None]] = frozenset()
    compiles: list[tuple[str, Decisions | None]] = field(default_factory=list)
    num_closed: int = 0
    num_compiles: int = 0

    def units(self) -> list[Unit]:
        return [Unit(name, name.split("/")[0], name) for name in self.effects]

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        self.compiles.append((unit, decisions))
        self.num_compiles += 1
        if (unit, decisions) in self.failing:
            return Failed("jit_error", "it was to fail")
        values = np.array(self.effects[unit], np.int64).reshape(-1, 2)
        viable = np.array([(unit, i) not in self.not_viable for i in range(len(values))], bool)
        chosen = ((0,) if len(values) else ()) if decisions is None else decisions
        performed = [i for i in dict.fromkeys(chosen) if i < len(values) and viable[i]]
        score = self.base + sum(int(values[i, 1] - values[i, 0]) for i in performed)
        return CompiledUnit(score, int(score), chosen, len(performed), Candidates(("benefit", "cost"), values, viable))

    def compile_many(self, requests):
        return [self.compile(unit, decisions) for unit, decisions in requests]

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self.num_closed += 1


@dataclass(frozen=True)
class AdditiveSpec:
    """Opens one, also in another process."""

    effects: dict[str, tuple[tuple[int, int], ...]]
    ordered: ClassVar[bool] = False
    static: ClassVar[bool] = True

    def open(self) -> AdditiveCompiler:
        return AdditiveCompiler(self.effects)

    def key(self):
        return {"name": "additive"}

    def place(self, unit):
        return Place(f"content-of-{unit}", unit)

    def check(self):
        pass
