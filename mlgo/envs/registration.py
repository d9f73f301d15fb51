"""Names under which Gymnasium finds the environments."""

import gymnasium

ENVIRONMENTS = {
    "mlgo/InlineSize-v0": {"task": "inline-size"},
    "mlgo/RegallocEvict-v0": {"task": "regalloc-evict"},
    "mlgo/RegallocPriority-v0": {"task": "regalloc-priority"},
}
"""Arguments of `env.CompileEnv` by id."""


CHOICE_ENVIRONMENTS = {
    "mlgo/JitCse-v0": "mlgo.problems.jit.environment:jit_cse",
    "mlgo/GccPre-v0": "mlgo.problems.gcc.environment:gcc_pre",
}
"""What makes environments of chosen eliminations, by id."""


def register() -> None:
    """Register all environments."""
    for name, arguments in ENVIRONMENTS.items():
        gymnasium.register(name, "mlgo.envs.env:CompileEnv", kwargs=dict(arguments), disable_env_checker=True)
    for name, maker in CHOICE_ENVIRONMENTS.items():
        gymnasium.register(name, maker, disable_env_checker=True)
