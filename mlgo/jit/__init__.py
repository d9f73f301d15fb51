"""Which common subexpressions the .NET JIT eliminates, method by method, through SuperPMI."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PROBLEMS = {"jit-cse": "mlgo.jit:JIT_CSE"}
"""See mlgo/base/registry.py."""

MEASURE = "PerfScore"
"""The JIT's own estimate of a method's cost; lower is better."""


@dataclass(frozen=True)
class JitCse:
    """The problem as it is registered; see `mlgo.base.registry.Problem`."""

    name: str = "jit-cse"
    kind: Literal["choices"] = "choices"
    title: str = "Chosen eliminations against the built-in heuristic"
    environment: str = "mlgo.jit.env:jit_cse"
    environment_arguments: Mapping[str, str] = field(default_factory=dict)


JIT_CSE = JitCse()
