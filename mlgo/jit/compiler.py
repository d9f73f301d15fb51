"""What a compiler that can be told which candidates to eliminate looks like from above."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

Decisions = tuple[int, ...]
"""Positions of the candidates to eliminate, in the order in which the compiler is to do so; empty for none."""


@dataclass(frozen=True)
class Candidates:
    """What could be eliminated in a unit.

    Attributes:
        names: of the features.
        values: int64 [num_candidates, num_features], as the compiler tells them.
        viable: bool [num_candidates], false where the compiler would refuse.
    """

    names: tuple[str, ...]
    values: np.ndarray
    viable: np.ndarray

    def __len__(self) -> int:
        return len(self.viable)


@dataclass(frozen=True)
class CompiledUnit:
    """A unit as it was compiled.

    Attributes:
        score: what is to be small: PerfScore of the .NET JIT, bytes, or executed instructions.
        code_bytes: size of the code.
        requested: positions that were asked for, or that the heuristic chose; None where it does not tell.
        num_performed: eliminations done; fewer than requested where the compiler refused some.
        candidates: as of this compile.
    """

    score: float
    code_bytes: int
    requested: Decisions | None
    num_performed: int
    candidates: Candidates


@dataclass(frozen=True)
class Failed:
    """A compile that came to nothing.

    Attributes:
        kind: short and machine-readable, as stored in ``failure`` columns.
        message: what went wrong.
    """

    kind: str
    message: str


Outcome = CompiledUnit | Failed


@dataclass(frozen=True)
class Unit:
    """Something that is compiled at a time: a translation unit, or a method of a collection.

    Attributes:
        name: unique among the units.
        project: whose code it is; empty where that is not known.
        body_sha256: equal for units that are the same but for their name.
        language: c, c++, or il.
        batch: units of a batch share compiles: what is asked of several of them can be answered by one.
    """

    name: str
    project: str
    body_sha256: str
    language: str = "il"
    batch: str = ""


Request = tuple[str, Decisions | None]
"""A unit and what to eliminate in it, see `ChoiceCompiler.compile`."""


class Found(NamedTuple):
    """A unit and its baselines.

    Attributes:
        unit: itself.
        none: without elimination.
        heuristic: under the built-in heuristic.
    """

    unit: Unit
    none: Outcome
    heuristic: Outcome

    @property
    def num_viable(self) -> int | None:
        """Candidates that can be applied; None where it does not compile."""
        return int(self.none.candidates.viable.sum()) if isinstance(self.none, CompiledUnit) else None


class ChoiceCompiler(Protocol):
    """A compiler whose eliminations can be chosen.

    Attributes:
        ordered: whether the order of decisions may matter.
        static: whether candidates and their features stay as they are, whatever is decided.
        num_compiles: compiles done so far.
    """

    ordered: bool
    static: bool
    num_compiles: int

    def units(self) -> Sequence[Unit]:
        """All units, in a fixed order."""
        ...

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """Compile units with these eliminations and no others, with as few compiles as it takes.

        Returns:
            Outcomes in the order of the requests; decisions None leave the choice to the built-in heuristic.
        """
        ...

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """The same for one unit."""
        return self.compile_many([(unit, decisions)])[0]

    def forget(self) -> None:
        """Drop what earlier requests have left behind that could change the outcome of later ones."""
        return

    def close(self) -> None:
        """End what runs. May be called again."""
        return


BASELINES: tuple[Decisions | None, ...] = ((), None)
"""Without elimination, and under the built-in heuristic."""


def compile_units(
    compiler: ChoiceCompiler, units: Sequence[str], choices: Sequence[Decisions | None] = BASELINES
) -> list[list[Outcome]]:
    """Outcomes of each unit under the same choices, in their order."""
    outcomes = iter(compiler.compile_many([(unit, choice) for unit in units for choice in choices]))
    return [[next(outcomes) for _ in choices] for _ in units]


class Place(NamedTuple):
    """Under what the outcomes of a unit are kept.

    Attributes:
        content: names what is compiled; equal for the same code under the same options.
        base: beginning of the unit's name; what follows tells it from others of this content.
    """

    content: str
    base: str


class CompilerSpec(Protocol):
    """How to open a compiler, and which units it has; can be sent to another process.

    Attributes:
        ordered: as the compiler's.
        static: as the compiler's.
    """

    ordered: ClassVar[bool]
    static: ClassVar[bool]

    def described(self) -> dict[str, Any]:
        """Compiler and settings for the provenance, as plain JSON values."""
        ...

    def key(self) -> dict[str, Any]:
        """Compiler and settings, as far as they decide outcomes: plain JSON values, no paths."""
        ...

    def place(self, unit: str) -> Place:
        """Where outcomes of a unit are kept, or those of all units of a batch, by its name."""
        ...

    def base(self, content: str) -> str | None:
        """The `Place.base` that belongs to a content; None where there is no such content."""
        ...

    def check(self) -> None:
        """See that the compiler works on this machine, and is the one that results are to come from."""
        ...

    def open(self) -> ChoiceCompiler:
        """Open it."""
        ...

    def find_units(self) -> list[Found]:
        """All units with their baselines, in a fixed order."""
        ...

    def split(
        self, found: Sequence[Found], splits: Mapping[str, Sequence[str]], seed: int
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Which side of the split eligible units are on.

        Returns:
            Train, validation or test by name of the unit, and why others are left out.
        """
        ...
