"""Modules as code generation gets them, which several files compile."""

from tests.host.test_regalloc_real import fast, optimized

__all__ = ["fast", "optimized"]
