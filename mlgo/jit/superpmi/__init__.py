"""The .NET JIT under advice, method by method: driving SuperPMI, its replay tool."""

PROBLEMS = {"jit-cse": "mlgo.jit.superpmi.problem:JIT_CSE"}
"""See mlgo/base/problems.py."""
