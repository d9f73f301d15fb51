"""A problem in which some of the candidates of a unit are chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo.base.config import CseConfig
from mlgo.base.problems import PROBLEMS, Kind
from mlgo.corpus.build import BuildLimits
from mlgo.corpus.recipe import Recipe
from mlgo.errors import ConfigError
from mlgo.jit.choices.columns import Column
from mlgo.jit.choices.compiler import CompilerSpec

SOURCES = Path("corpus/sources.parquet")
"""Table of translation units, in the folder of a run's data."""


@dataclass(frozen=True)
class Counted:
    """What a run of a problem compares, in words.

    Attributes:
        measure: what a score is, such as "bytes of text".
        units: what is chosen for, in the plural, such as "functions".
    """

    measure: str
    units: str


Sources = Callable[[CseConfig, Mapping[str, Recipe], BuildLimits, Path], tuple[list[dict[str, Any]], dict[str, Any]]]
"""Makes translation units: of section ``cse``, the recipes of projects, how much of each is taken, and the folder of
downloaded source distributions. Gives rows of ``artifacts.CSE_SOURCES``, and what did it, for the provenance; raises
`PackageError` or `CorpusError` where sources cannot be had or used."""


@dataclass(frozen=True)
class ChoiceProblem:
    """Eliminations that a compiler offers, of which a policy chooses some.

    Attributes:
        name: as in the configuration.
        title: of its report.
        columns: how features enter, by name of the feature.
        compiler: says how to open the compiler, by section ``cse`` of the configuration and a table of translation
            units, where there is one; see `compiler_spec`.
        compiler_name: for the report, as in "which computations should GCC eliminate?".
        counted: what is compared, by section ``cse`` of the configuration as plain values.
        environment: ``module:function`` that makes its Gymnasium environment.
        about_score: what a score is, for the report, as HTML; empty where `Counted.measure` says it all.
        about_code_size: goes on after "bytes of machine code", for the report.
        sources: makes their table, where units come from translation units.
        kind: choices.
        environment_arguments: none.
    """

    name: str
    title: str
    columns: Mapping[str, Column]
    compiler: Callable[[CseConfig, Path], CompilerSpec]
    compiler_name: str
    counted: Callable[[Mapping[str, Any]], Counted]
    environment: str
    about_score: str = ""
    about_code_size: str = ""
    sources: Sources | None = None
    kind: Kind = "choices"
    environment_arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_sources(self) -> bool:
        """Whether there is a table of translation units."""
        return self.sources is not None


def choice_problem(name: str) -> ChoiceProblem:
    """Look a problem of this kind up.

    Raises:
        ConfigError: there is none of that name.
    """
    problem = PROBLEMS.get(name)
    if not isinstance(problem, ChoiceProblem):
        raise ConfigError(f"task {name} does not choose among candidates; its compiles ask questions")
    return problem


def compiler_spec(name: str, config: CseConfig, home: Path) -> CompilerSpec:
    """How to open the compiler of a problem.

    Args:
        name: of the problem.
        config: section ``cse`` of the configuration.
        home: folder of the run's data, such as ``data/cse``.

    Raises:
        ConfigError: no such problem, or the configuration lacks what it needs.
        ToolchainError: no usable compiler.
    """
    return choice_problem(name).compiler(config, home / SOURCES)
