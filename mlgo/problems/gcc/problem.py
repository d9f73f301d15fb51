"""Partial redundancies that GCC eliminates: which of them?"""

from pathlib import Path

from mlgo.core.config import CseConfig
from mlgo.problems.gcc.compiler import GccSpec
from mlgo.problems.gcc.features import GCC_COLUMNS
from mlgo.problems.subset.problem import ChoiceProblem, Counted

_MEASURES = {
    "text_bytes": "bytes of text",
    "function_bytes": "bytes of functions",
    "instructions": "executed instructions",
}
_UNITS = {"translation_unit": "translation units", "function": "functions"}


def _compiler(config: CseConfig, sources: Path | None) -> GccSpec:
    assert sources is not None  # see `needs_sources`
    return GccSpec.of(config.gcc, sources)


GCC_PRE = ChoiceProblem(
    name="gcc-pre",
    title="Chosen eliminations against the built-in heuristic",
    columns=GCC_COLUMNS,
    compiler=_compiler,
    compiler_name="GCC",
    counted=lambda cse: Counted(_MEASURES[cse["gcc"]["score"]], _UNITS[cse["gcc"]["unit"]]),
    about_code_size=", as the baseline measures it",
    environment="mlgo.problems.gcc.environment:gcc_pre",
    needs_sources=True,
)
