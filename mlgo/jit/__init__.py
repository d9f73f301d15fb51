"""Which common subexpressions the .NET JIT eliminates, method by method, through SuperPMI."""

PROBLEMS = {"jit-cse": "mlgo.jit.problem:JIT_CSE"}
"""See mlgo/base/registry.py."""
