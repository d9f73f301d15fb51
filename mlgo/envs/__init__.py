"""Gymnasium environments: the compiler asks, an agent answers. Importing this package registers them."""

from mlgo.envs.registration import compile_environments, register

register()

__all__ = ["compile_environments"]
