"""Train machine-learned compiler heuristics with a stock compiler, and prove what they are worth.

The names below are loaded when they are first used, so ``import mlgo`` stays fast. docs/library.md shows them.
"""

from typing import Any

__version__ = "0.3.0"

_PLACES = {
    "MlgoError": "mlgo.errors:MlgoError",
    "load_config": "mlgo.base.config:load_config",
    "find_toolchain": "mlgo.host.toolchain:find_toolchain",
    "get_task": "mlgo.host.tasks.task:get_task",
    "FrontEnd": "mlgo.host.frontend:FrontEnd",
    "load_policy": "mlgo.policy.stored:load_stored",
    "find_policy": "mlgo.deploy.drivers:find_policy",
    "decide": "mlgo.policy.stored:decide",
    "FunctionAdvisor": "mlgo.host.tasks.task:FunctionAdvisor",
    "compile_plain": "mlgo.host.session:compile_plain",
    "compile_under_advice": "mlgo.host.session:compile_under_advice",
    "compare_builds": "mlgo.deploy.size_diff:compare_builds",
    "make_env": "mlgo.envs:make",
    "read_table": "mlgo.base.artifacts:read_table",
    "read_provenance": "mlgo.base.artifacts:read_provenance",
    "read_report": "mlgo.base.files:read_record",
}
"""Public names, and where each is defined."""

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module 'mlgo' has no attribute {name!r}")
    from pkgutil import resolve_name

    return resolve_name(_PLACES[name])


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
