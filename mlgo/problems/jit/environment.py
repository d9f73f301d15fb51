"""Choosing eliminations of the .NET JIT, by the name under which Gymnasium finds it; imported when one is made."""

from collections.abc import Sequence
from typing import Any

from mlgo.core.config import SuperPmiConfig
from mlgo.problems.jit.compiler import SuperPmiSpec
from mlgo.problems.jit.features import JIT_COLUMNS
from mlgo.problems.subset.env import CseEnv


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
