"""Common subexpressions that the .NET JIT eliminates: which of them?"""

from mlgo.jit.choices.problem import ChoiceProblem, Counted
from mlgo.jit.superpmi.compiler import SuperPmiSpec
from mlgo.jit.superpmi.features import JIT_COLUMNS

JIT_CSE = ChoiceProblem(
    name="jit-cse",
    title="Chosen eliminations against the built-in heuristic",
    columns=JIT_COLUMNS,
    compiler=lambda config: SuperPmiSpec.of(config.superpmi),
    compiler_name="the .NET JIT",
    counted=Counted("PerfScore", "methods"),
    about_score="its <strong>PerfScore</strong>, the JIT&rsquo;s own estimate of how long the method runs: cycles of\n"
    "each instruction, weighted by how often its block is expected to run. Nothing is run",
    environment="mlgo.jit.superpmi.environment:jit_cse",
)
