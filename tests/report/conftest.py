"""The made-up world of the experiments' tests."""

from tests.compare.conftest import allocating, world

__all__ = ["allocating", "world"]
