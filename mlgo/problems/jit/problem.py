"""Common subexpressions that the .NET JIT eliminates: which of them?"""

from mlgo.problems.jit.compiler import SuperPmiSpec
from mlgo.problems.jit.features import JIT_COLUMNS
from mlgo.problems.subset.problem import ChoiceProblem

JIT_CSE = ChoiceProblem(
    name="jit-cse",
    title="Chosen eliminations against the built-in heuristic",
    columns=JIT_COLUMNS,
    compiler=lambda config, sources: SuperPmiSpec.of(config.superpmi),
    environment="mlgo.problems.jit.environment:jit_cse",
)
