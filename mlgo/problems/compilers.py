"""The compiler that each task drives."""

from collections.abc import Mapping
from pathlib import Path

from mlgo.core.config import CseConfig
from mlgo.core.errors import ConfigError
from mlgo.problems.gcc.compiler import GccSpec
from mlgo.problems.gcc.features import GCC_COLUMNS
from mlgo.problems.jit.compiler import SuperPmiSpec
from mlgo.problems.jit.features import JIT_COLUMNS
from mlgo.problems.subset.columns import Column

COLUMNS: dict[str, Mapping[str, Column]] = {"gcc-pre": GCC_COLUMNS, "jit-cse": JIT_COLUMNS}
"""How features enter, by task and name of the feature."""


def compiler_spec(task: str, config: CseConfig, sources: Path | None) -> GccSpec | SuperPmiSpec:
    """How to open a task's compiler.

    Args:
        task: ``gcc-pre`` or ``jit-cse``.
        config: section ``cse`` of the configuration.
        sources: table of translation units, for ``gcc-pre``.

    Raises:
        ConfigError: an unknown task, or the configuration lacks what it needs.
        ToolchainError: no usable GCC.
        SuperPmiError: SuperPMI, JIT or collection are missing.
    """
    if task == "jit-cse":
        return SuperPmiSpec.of(config.superpmi)
    if task != "gcc-pre":
        raise ConfigError(f"task {task} does not choose eliminations; known: {', '.join(COLUMNS)}")
    if sources is None:
        raise ConfigError("task gcc-pre needs a table of translation units; run the stage that makes it")
    return GccSpec.of(config.gcc, sources)
