"""Modules as code generation gets them, which several files compile."""

from tests.host.conftest import optimized
from tests.host.test_regalloc_real import fast

__all__ = ["fast", "optimized"]
