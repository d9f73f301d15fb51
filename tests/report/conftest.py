"""The made-up world of the experiments' tests."""

from tests.experiments.conftest import allocating, world

__all__ = ["allocating", "world"]
