"""Gymnasium environments: the compiler asks, an agent answers. Importing this package registers them."""

import pkgutil
from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation

from mlgo.base.registry import PROBLEMS

__all__ = ["compile_environments"]


def environment_id(problem: str, flat: bool = False) -> str:
    """The id of a problem's environment, for example ``mlgo/InlineSize-v0`` of ``inline-size``."""
    name = "".join(part.capitalize() for part in problem.split("-"))
    return f"mlgo/{name}{'Flat' if flat else ''}-v0"


def compile_environments() -> list[str]:
    """Ids of the environments whose episode is one compile of a module."""
    return [environment_id(name) for name in PROBLEMS.names() if PROBLEMS.get(name).kind == "modules"]


def make(problem: str, flatten: bool = False, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Make the environment of a problem; the problem is imported only now.

    Args:
        flatten: observations become one float32 vector, see `vector.VectorObservation`.
        **arguments: of the environment, for inlining and registers those of `env.CompileEnv`.
    """
    from mlgo.envs.env import CompileEnv
    from mlgo.envs.vector import VectorObservation

    found = PROBLEMS.get(problem)
    env: gymnasium.Env[Any, Any] = pkgutil.resolve_name(found.environment)(**found.environment_arguments, **arguments)
    if not flatten:
        return env
    return VectorObservation(env) if isinstance(env, CompileEnv) else FlattenObservation(env)


def register() -> None:
    """Register the environments of all problems."""
    for name in PROBLEMS.names():
        for flat in (False, True):
            arguments = {"problem": name, **({"flatten": True} if flat else {})}
            gymnasium.register(environment_id(name, flat), "mlgo.envs:make", kwargs=arguments, disable_env_checker=True)


register()
