"""A problem in which some of the candidates of a unit are chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlgo.base.config import CseConfig
from mlgo.base.registry import PROBLEMS, Kind
from mlgo.errors import ConfigError
from mlgo.jit.columns import JIT_COLUMNS, FeatureColumn
from mlgo.jit.compiler import CompilerSpec
from mlgo.jit.superpmi import SuperPmiSpec


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
        compiler: says how to open the compiler, by section ``cse`` of the configuration; see `compiler_spec`.
        compiler_name: for the report, as in "which computations should the JIT eliminate?".
        counted: what is compared.
        environment: ``module:function`` that makes its Gymnasium environment.
        about_score: what a score is, for the report, as HTML; empty where `Counted.measure` says it all.
        kind: choices.
        environment_arguments: none.
    """

    name: str
    title: str
    columns: Mapping[str, FeatureColumn]
    compiler: Callable[[CseConfig], CompilerSpec]
    compiler_name: str
    counted: Counted
    environment: str
    about_score: str = ""
    kind: Kind = "choices"
    environment_arguments: Mapping[str, str] = field(default_factory=dict)


def choice_problem(name: str) -> ChoiceProblem:
    """Look a problem of this kind up."""
    problem = PROBLEMS.get(name)
    if not isinstance(problem, ChoiceProblem):
        raise ConfigError(f"task {name} does not choose among candidates; its compiles ask questions")
    return problem


def compiler_spec(name: str, config: CseConfig) -> CompilerSpec:
    """How to open the compiler of a problem."""
    return choice_problem(name).compiler(config)


JIT_CSE = ChoiceProblem(
    name="jit-cse",
    title="Chosen eliminations against the built-in heuristic",
    columns=JIT_COLUMNS,
    compiler=lambda config: SuperPmiSpec.of(config.superpmi),
    compiler_name="the .NET JIT",
    counted=Counted("PerfScore", "methods"),
    about_score="its <strong>PerfScore</strong>, the JIT&rsquo;s own estimate of how long the method runs: cycles of\n"
    "each instruction, weighted by how often its block is expected to run. Nothing is run",
    environment="mlgo.jit.env:jit_cse",
)
