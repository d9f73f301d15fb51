"""What a compiler that can be told which candidates to eliminate looks like from above."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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
class Compiled:
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


Outcome = Compiled | Failed


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

    def units(self, batch: str = "") -> Sequence[Unit]:
        """Units of a batch, in a fixed order; of all without one."""
        ...

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """Compile a unit with these eliminations and no others; None leaves the choice to the built-in heuristic."""
        ...

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """The same for several units and choices, with as few compiles as it takes; outcomes in their order."""
        ...

    def notes(self, unit: str) -> Any:
        """What it has found out about a unit's batch besides outcomes, as plain JSON values; None for nothing."""
        ...

    def take_notes(self, unit: str, notes: Any) -> None:
        """Take over what `notes` gave in another process or run; raises `ArtifactError` where that cannot be."""
        ...

    def forget(self) -> None:
        """Drop what earlier requests have left behind that could change the outcome of later ones."""
        ...

    def close(self) -> None:
        """End what runs. May be called again."""
        ...


class Place(NamedTuple):
    """Under what the outcomes of a unit are kept.

    Attributes:
        content: names what is compiled; equal for the same code under the same options.
        base: beginning of the unit's name; what follows tells it from others of this content.
    """

    content: str
    base: str


class CompilerSpec(Protocol):
    """How to open a compiler; can be sent to another process."""

    def described(self) -> dict[str, Any]:
        """Compiler and settings for the provenance, as plain JSON values."""
        ...

    def key(self) -> dict[str, Any]:
        """Compiler and settings, as far as they decide outcomes: plain JSON values, no paths."""
        ...

    def place(self, unit: str) -> Place:
        """Where outcomes of a unit are kept, or those of all units of a batch, by its name."""
        ...

    def check(self) -> None:
        """See that the compiler works on this machine, and is the one that results are to come from.

        Raises:
            MlgoError: it does not, or is another.
        """
        ...

    def open(self) -> ChoiceCompiler:
        """Open it.

        Raises:
            ToolchainError: there is none, or it cannot do this.
        """
        ...
