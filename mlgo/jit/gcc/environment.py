"""Choosing eliminations of GCC, by the name under which Gymnasium finds it; imported when one is made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo.base.config import GccConfig, parse_section
from mlgo.jit.choices.env import ChoiceEnv
from mlgo.jit.gcc.compiler import GccCompiler, GccSpec
from mlgo.jit.gcc.features import GCC_COLUMNS

_SETTINGS = {
    "command": "auto",
    "optimization": "-O2",
    "counter": "pre_insn",
    "unit": "function",
    "candidate": "expression",
    "score": "function_bytes",
    "timeout_s": 60.0,
}


def gcc_pre(sources: Sequence[str] = (), table: str | None = None, **options: Any) -> ChoiceEnv:
    """``mlgo/GccPre-v0``: partial redundancies that a stock GCC eliminates, translation unit by translation unit.

    Args:
        sources: C and C++ files; or
        table: ``sources.parquet`` that the pipeline made.
        options: those of `GccConfig` (by default those of config/config.yaml) and of `ChoiceEnv`. Units are named
            ``project/source:function`` in a table, by their file instead of project and source else, and without
            function where translation units are chosen for. Instructions are those of the program that all sources make
            together, or those of each project of the table.

    Raises:
        ConfigError: neither sources nor a table, or both.
        ToolchainError: no GCC, or one without debug counters.
        CompileError: a source does not compile.
    """
    given = {name: options.pop(name, value) for name, value in _SETTINGS.items()}
    settings = parse_section(GccConfig, given, "mlgo/GccPre-v0")
    compiler = (
        GccSpec(settings, Path(table)).open() if table and not sources else GccCompiler.of_files(settings, sources)
    )
    return ChoiceEnv(compiler, GCC_COLUMNS, **{"min_viable": 1, "max_candidates": 64, **options})
