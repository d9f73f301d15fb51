"""Environments by the names under which Gymnasium finds them; imported when one is made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo.core.config import GccConfig, SuperPmiConfig
from mlgo.cse.env import CseEnv
from mlgo.cse.gcc import GccCompiler, GccSpec
from mlgo.cse.gcc_features import GCC_COLUMNS
from mlgo.cse.jit import SuperPmiSpec
from mlgo.cse.jit_features import JIT_COLUMNS


def jit_cse(
    core_root: str | None = None,
    collection: str | None = None,
    command: Sequence[str] = (),
    jit: str | None = None,
    request_timeout_s: float = 60.0,
    startup_timeout_s: float = 300.0,
    max_restarts: int = 3,
    **options: Any,
) -> CseEnv:
    """``mlgo/JitCse-v0``: methods of a SuperPMI collection under a Checked .NET JIT.

    Args:
        core_root: folder with superpmi and the JIT.
        collection: recorded methods, ``.mch``.
        command: of superpmi, instead of that in ``core_root``.
        jit: instead of that in ``core_root``.
        request_timeout_s: deadline of one compile.
        startup_timeout_s: deadline of the first.
        max_restarts: a method is given up once superpmi had to be started anew this often for it.
        options: see `CseEnv`; units are numbers of methods, as text.

    Raises:
        ConfigError: collection, or superpmi and JIT, are not named.
        SuperPmiError: one is missing, a Release build, of another interface version, or cut short.
    """
    settings = SuperPmiConfig(
        core_root=core_root,
        collection=collection,
        command=list(command),
        jit=jit,
        request_timeout_s=request_timeout_s,
        startup_timeout_s=startup_timeout_s,
        max_restarts=max_restarts,
        max_methods=1,
        validation_share=0.0,
        test_share=0.0,
    )
    spec = SuperPmiSpec.of(settings)
    spec.check()
    return CseEnv(spec.open(), JIT_COLUMNS, **options)


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
