"""Partial redundancies that GCC eliminates: which of them?"""

from mlgo.problems.gcc.compiler import GccSpec
from mlgo.problems.gcc.features import GCC_COLUMNS
from mlgo.problems.gcc.translation_units import translation_units
from mlgo.problems.subset.problem import ChoiceProblem, Counted

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
    environment="mlgo.problems.gcc.environment:gcc_pre",
    sources=translation_units,
)
