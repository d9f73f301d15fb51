"""The registry of measures: every number that compiles are judged by, defined once, where it is read.

A measure is a `Measure` in the tuple ``MEASURES`` of a module of this package. A new one needs a file here and nothing
else: it becomes a column of scores and results, a value of ``compile.objective``, and a row of the report. See
docs/adding-a-measure.md.
"""

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

import numpy as np

from mlgo.errors import ConfigError
from mlgo.objects.comdat import comdat_groups
from mlgo.objects.elf import object_sections
from mlgo.objects.remarks import SpillCosts

FAILED_REWARD = -1.0
"""What a module that fails to compile counts in a validation: as if it had doubled in size."""


Scores = Mapping[str, int | float | None]
"""What a compile came to, by the names of measures; None where it is not known."""


def known_score(scores: Scores, name: str) -> float:
    """One score; ValueError where it is not known."""
    value = scores[name]
    if value is None:
        raise ValueError(f"{name} of this compile is not known")
    return float(value)


@dataclass(frozen=True)
class Compiled:
    """What a compile left behind, for measures to read."""

    data: bytes  # the object file
    # What register allocation cost each function; None where the decisions come before it.
    functions: tuple[SpillCosts, ...] | None = None
    # Modules of the project that carry a COMDAT group, by signature; None where that is not known.
    num_copies: Mapping[bytes, int] | None = None
    # What the program executes that the object was linked to; None where it was not run.
    instructions: int | None = None
    # Bytes of the linked file that the object makes alone, as far as they count, by the names of `symbols.SHIPPED`;
    # None where it makes none.
    linked: Mapping[str, int] | None = None

    @cached_property
    def sections(self) -> np.ndarray:
        """The object's section headers, structured [num_sections], see `elf.SECTION`."""
        return object_sections(self.data)

    @cached_property
    def groups(self) -> list[tuple[bytes, int]]:
        """Signature and text in bytes of each COMDAT group."""
        return comdat_groups(self.data)


@dataclass(frozen=True)
class Words:
    """How a report speaks of a measure."""

    title: str  # name, as in "change in text"
    definition: str  # what it is, in sentences
    subject: str = "Size"  # what is compared, at the beginning of a sentence
    unit: str = "bytes"  # what it is counted in, as in "fewer bytes"
    fewer: str = "fewer"  # "fewer" or "less", whichever goes with the unit
    smaller: str = "the code smaller"  # what a policy makes that lowers it, as in "makes the code smaller"
    larger: str = "the code larger"  # what a policy makes that raises it


@dataclass(frozen=True)
class Measure:
    """One number by which compiles are compared. Less is better, always."""

    name: str  # of its columns and of `compile.objective`
    words: Words  # of the report
    quantity: str  # what it counts, for the schemas of tables
    meaning: str  # of the column of a single compile
    read: Callable[[Compiled], int | float | None]  # reads it from a compile; None where such compiles do not have it
    unit: str = "bytes"  # of its columns; empty for weighted sums
    is_integer: bool = True  # integers or floats
    # Added to scores before they are compared. Where scores can be near 0, a little more or less would otherwise count
    # as a hundred percent.
    offset: float = 0.0
    # Reads it from what one function cost, where a module's score is the sum over functions that are decided one by
    # one. Credit and response trees are then by function.
    of_function: Callable[[SpillCosts], float] | None = None
    of_program: str = ""  # meaning of the sum over the objects of a program; empty where sums of it are not told
    needs_copies: bool = False  # it depends on what other modules of the project carry
    of_run: bool = False  # it is known where the object was linked to a program that was run
    of_link: bool = False  # it is known where the object makes a linked file alone: of merged modules
    # Raised when the same compile gives another score than before, so that remembered ones are not used.
    version: int = 1
    quantity_of_baseline: str = ""  # as `quantity`, where columns of the heuristic's scores say it in other words

    @property
    def is_by_function(self) -> bool:
        """Whether it is a sum over functions, not a size of the whole object."""
        return self.of_function is not None

    @property
    def is_of_object(self) -> bool:
        """Whether the object file alone tells it."""
        return not (self.is_by_function or self.needs_copies or self.of_run or self.of_link)

    def of_functions(self, functions: Iterable[SpillCosts]) -> float:
        """Score of a module whose functions cost this; the order of the additions decides its last bits."""
        if self.of_function is None:
            raise ValueError(f"{self.name} is not known: only what functions cost is")
        return float(sum(map(self.of_function, functions)))

    def describe(self, scores: Scores) -> str:
        """A score in words, such as "160 bytes of text"."""
        return f"{scores[self.name]} {self.words.unit} of {self.words.title}"

    def reward(self, score: np.ndarray, baseline: np.ndarray) -> np.ndarray:
        """Gain over the baseline, float64 [...]; see `relative_reward`."""
        return relative_reward(score, baseline, self.offset)


def relative_reward(score: np.ndarray, baseline: np.ndarray, offset: float = 0.0) -> np.ndarray:
    """Gain over the baseline, float64 [...]: ``1 - score / baseline``; 0.01 means one percent less. NaN stays NaN.

    With an offset it is ``-log((score + offset) / (baseline + offset))``, next to the same for small changes. Scores
    that need an offset can be a multiple of their baseline, and one such module would outweigh all others in a mean;
    the mean of logarithms is what the geometric mean of a report is made of.

    Args:
        score: float64 [...], raw cost under the policy; NaN where the compile failed.
        baseline: float64 [...], raw cost under the built-in heuristic; above 0 without an offset.
        offset: added to both, see `Measure`.
    """
    if not offset:
        return 1.0 - score / baseline
    return -np.log((score + offset) / (baseline + offset))


def _defined() -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for measure in getattr(import_module(f"{__name__}.{name}"), "MEASURES", ()):
            if measure.name in found:
                raise ValueError(f"mlgo/objects/measures/{name}.py: there is a measure {measure.name} already")
            found[measure.name] = measure
    return found


MEASURES: dict[str, Measure] = _defined()
"""All measures by name, in the order of their columns."""

DEFAULT = MEASURES["text_bytes"]
"""What counts where nothing else is chosen."""


def get_measure(name: str) -> Measure:
    """Look a measure up by its name."""
    if name not in MEASURES:
        raise ConfigError(f"unknown measure {name!r}; known: {', '.join(names())}")
    return MEASURES[name]


def names(which: Callable[[Measure], bool] = lambda measure: True) -> tuple[str, ...]:
    """Names of the measures that are ``which``, as users see them: `DEFAULT` first, then the others."""
    chosen = sorted(filter(which, MEASURES.values()), key=lambda measure: measure is not DEFAULT)
    return tuple(measure.name for measure in chosen)


SIZES = names(lambda measure: not measure.is_by_function)
"""Measures of a whole object: its sizes, and what the program executes that it makes."""

SIZES_VERSION = ", ".join(f"{name} {MEASURES[name].version}" for name in sorted(SIZES))
"""Tells what was remembered of an object from what is read of it now."""


def read_scores(compiled: Compiled) -> dict[str, int | float | None]:
    """Read all measures from a compile; ObjectError where its object cannot be read."""
    return {name: measure.read(compiled) for name, measure in MEASURES.items()}


def scores_of(row: Scores) -> dict[str, int | float | None]:
    """What a table's row holds of all measures, None for those that are no column of it."""
    return {name: row.get(name) for name in MEASURES}
