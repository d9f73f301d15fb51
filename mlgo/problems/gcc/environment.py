"""Choosing eliminations of GCC, by the name under which Gymnasium finds it; imported when one is made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo.core.config import GccConfig
from mlgo.problems.gcc.compiler import GccCompiler, GccSpec
from mlgo.problems.gcc.features import GCC_COLUMNS
from mlgo.problems.subset.env import CseEnv


def gcc_pre(
    sources: Sequence[str] = (),
    table: str | None = None,
    command: str = "auto",
    optimization: str = "-O2",
    counter: str = "pre_insn",
    unit: str = "function",
    candidate: str = "expression",
    score: str = "function_bytes",
    timeout_s: float = 60.0,
    **options: Any,
) -> CseEnv:
    """``mlgo/GccPre-v0``: partial redundancies that a stock GCC eliminates, translation unit by translation unit.

    Args:
        sources: C and C++ files; or
        table: ``sources.parquet`` that the pipeline made.
        command: of gcc.
        optimization: level.
        counter: debug counter that is driven.
        unit: ``function`` or ``translation_unit``.
        candidate: ``expression`` or ``instruction``.
        score: ``function_bytes``, ``text_bytes`` of translation units, or ``instructions`` of the program that all
            sources make together, or those of each project of the table.
        timeout_s: deadline of one compile.
        options: see `CseEnv`; units are named ``project/source:function`` in a table, by their file instead of project
            and source else, and without function where translation units are chosen for.

    Raises:
        ConfigError: neither sources nor a table, or both.
        ToolchainError: no GCC, or one without debug counters.
        CompileError: a source does not compile.
    """
    settings = GccConfig(
        command=command,
        optimization=optimization,  # type: ignore[arg-type]
        counter=counter,  # type: ignore[arg-type]
        unit=unit,  # type: ignore[arg-type]
        candidate=candidate,  # type: ignore[arg-type]
        score=score,  # type: ignore[arg-type]
        timeout_s=timeout_s,
    )
    compiler = (
        GccSpec(settings, Path(table)).open() if table and not sources else GccCompiler.of_files(settings, sources)
    )
    return CseEnv(compiler, GCC_COLUMNS, **{"min_viable": 1, "max_candidates": 64, **options})
