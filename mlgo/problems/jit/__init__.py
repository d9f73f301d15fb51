"""The .NET JIT under advice, method by method: driving SuperPMI, its replay tool."""

PROBLEMS = {"jit-cse": "mlgo.problems.jit.problem:JIT_CSE"}
"""See mlgo/core/problems.py."""
