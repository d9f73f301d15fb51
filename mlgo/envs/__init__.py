"""Gymnasium environments: the compiler asks, an agent answers. Importing this package registers them."""

from mlgo.envs.registration import ENVIRONMENTS, register

register()

__all__ = ["ENVIRONMENTS"]
