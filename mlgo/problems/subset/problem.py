"""A problem in which some of the candidates of a unit are chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo.core.config import CseConfig
from mlgo.core.errors import ConfigError
from mlgo.core.problems import PROBLEMS, Kind
from mlgo.problems.subset.columns import Column
from mlgo.problems.subset.enumeration import UnitsSpec


@dataclass(frozen=True)
class Counted:
    """What a run of a problem compares, in words.

    Attributes:
        measure: what a score is, such as "bytes of text".
        units: what is chosen for, in the plural, such as "functions".
    """

    measure: str
    units: str


@dataclass(frozen=True)
class ChoiceProblem:
    """Eliminations that a compiler offers, of which a policy chooses some.

    Attributes:
        name: as in the configuration.
        title: of its report.
        columns: how features enter, by name of the feature.
        compiler: says how to open the compiler, by section ``cse`` of the configuration and a table of translation
            units; see `compiler_spec`.
        compiler_name: for the report, as in "which computations should GCC eliminate?".
        counted: what is compared, by section ``cse`` of the configuration as plain values.
        environment: ``module:function`` that makes its Gymnasium environment.
        about_score: what a score is, for the report, as HTML; empty where `Counted.measure` says it all.
        about_code_size: goes on after "bytes of machine code", for the report.
        needs_sources: units come from translation units, so there is such a table.
        kind: choices.
        environment_arguments: none.
    """

    name: str
    title: str
    columns: Mapping[str, Column]
    compiler: Callable[[CseConfig, Path | None], UnitsSpec]
    compiler_name: str
    counted: Callable[[Mapping[str, Any]], Counted]
    environment: str
    about_score: str = ""
    about_code_size: str = ""
    needs_sources: bool = False
    kind: Kind = "choices"
    environment_arguments: Mapping[str, str] = field(default_factory=dict)


def choice_problem(name: str) -> ChoiceProblem:
    """Look a problem of this kind up.

    Raises:
        ConfigError: there is none of that name.
    """
    problem = PROBLEMS.get(name)
    if not isinstance(problem, ChoiceProblem):
        raise ConfigError(f"task {name} does not choose among candidates; its compiles ask questions")
    return problem


def compiler_spec(name: str, config: CseConfig, sources: Path | None) -> UnitsSpec:
    """How to open the compiler of a problem.

    Args:
        name: of the problem.
        config: section ``cse`` of the configuration.
        sources: table of translation units, where units come from these.

    Raises:
        ConfigError: no such problem, or the configuration lacks what it needs.
        ToolchainError: no usable compiler.
    """
    problem = choice_problem(name)
    if problem.needs_sources and sources is None:
        raise ConfigError(f"task {name} needs a table of translation units; run the stage that makes it")
    return problem.compiler(config, sources)
