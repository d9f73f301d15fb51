"""A problem in which some of the candidates of a unit are chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlgo.core.config import CseConfig
from mlgo.core.errors import ConfigError
from mlgo.core.problems import PROBLEMS, Kind
from mlgo.problems.subset.columns import Column
from mlgo.problems.subset.compiler import CompilerSpec


@dataclass(frozen=True)
class ChoiceProblem:
    """Eliminations that a compiler offers, of which a policy chooses some.

    Attributes:
        name: as in the configuration.
        title: of its report.
        columns: how features enter, by name of the feature.
        compiler: says how to open the compiler, by section ``cse`` of the configuration and a table of translation
            units; see `compiler_spec`.
        environment: ``module:function`` that makes its Gymnasium environment.
        needs_sources: units come from translation units, so there is such a table.
        kind: choices.
        environment_arguments: none.
    """

    name: str
    title: str
    columns: Mapping[str, Column]
    compiler: Callable[[CseConfig, Path | None], CompilerSpec]
    environment: str
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


def compiler_spec(name: str, config: CseConfig, sources: Path | None) -> CompilerSpec:
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
