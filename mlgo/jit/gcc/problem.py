"""Partial redundancies that GCC eliminates: which of them?"""

from mlgo.jit.choices.problem import ChoiceProblem, Counted
from mlgo.jit.gcc.compiler import GccSpec
from mlgo.jit.gcc.features import GCC_COLUMNS
from mlgo.jit.gcc.translation_units import translation_units

_MEASURES = {
    "text_bytes": "bytes of text",
    "function_bytes": "bytes of functions",
    "instructions": "executed instructions",
}
_UNITS = {"translation_unit": "translation units", "function": "functions"}


GCC_PRE = ChoiceProblem(
    name="gcc-pre",
    title="Chosen eliminations against the built-in heuristic",
    columns=GCC_COLUMNS,
    compiler=lambda config, sources: GccSpec.of(config.gcc, sources),
    compiler_name="GCC",
    counted=lambda cse: Counted(_MEASURES[cse["gcc"]["score"]], _UNITS[cse["gcc"]["unit"]]),
    about_code_size=", as the baseline measures it",
    environment="mlgo.jit.gcc.environment:gcc_pre",
    sources=translation_units,
)
