"""The registry of measures: every number that compiles are judged by, defined once, where it is read.

A measure is a `Measure` in the tuple ``MEASURES`` of a module of this package. A new one needs a file here and nothing
else: it becomes a column of scores and results, a value of ``compile.objective``, and a row of the report. See
docs/adding-a-measure.md.
"""

import pkgutil
from collections.abc import Callable
from importlib import import_module

from mlgo.errors import ConfigError
from mlgo.objects.measures.base import FAILED_REWARD, Compiled, Measure, Scores, Words, known_score, relative_reward
from mlgo.objects.measures.built_in import TEXT


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

DEFAULT = TEXT
"""What counts where nothing else is chosen."""


def get_measure(name: str) -> Measure:
    """Look a measure up by its name."""
    if name not in MEASURES:
        raise ConfigError(f"unknown measure {name!r}; known: {', '.join(names())}")
    return MEASURES[name]


def names(which: Callable[[Measure], bool] = lambda measure: True) -> tuple[str, ...]:
    """Names of some measures as users see them: `DEFAULT` first, then the others.

    Args:
        which: says of each whether it is wanted.
    """
    chosen = sorted(filter(which, MEASURES.values()), key=lambda measure: measure is not DEFAULT)
    return tuple(measure.name for measure in chosen)


SIZES = names(lambda measure: not measure.is_by_function)
"""Measures of a whole object: its sizes, and what the program executes that it makes."""

SIZES_VERSION = ", ".join(f"{name} {MEASURES[name].version}" for name in sorted(SIZES))
"""Tells what was remembered of an object from what is read of it now."""


def read_scores(compiled: Compiled) -> dict[str, int | float | None]:
    """Read all measures from a compile.

    Raises:
        ObjectError: the object is not a 64-bit little-endian ELF file, or is cut short.
    """
    return {name: measure.read(compiled) for name, measure in MEASURES.items()}


def scores_of(row: Scores, prefix: str = "") -> dict[str, int | float | None]:
    """What a table's row holds of all measures, None for those that are no column of it.

    Args:
        row: values by column.
        prefix: of the columns' names.
    """
    return {name: row.get(prefix + name) for name in MEASURES}


__all__ = [
    "DEFAULT",
    "FAILED_REWARD",
    "MEASURES",
    "SIZES",
    "SIZES_VERSION",
    "Compiled",
    "Measure",
    "Scores",
    "Words",
    "get_measure",
    "known_score",
    "names",
    "read_scores",
    "relative_reward",
    "scores_of",
]
