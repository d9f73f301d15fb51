"""What a compile of a method gives."""

from dataclasses import dataclass

import numpy as np

Decisions = tuple[int, ...]
"""Positions of the candidates to eliminate, from 0, in the order in which the JIT is to do so; empty for none."""

BASELINES: tuple[Decisions | None, ...] = ((), None)
"""Without elimination, and under the built-in heuristic."""


@dataclass(frozen=True)
class Candidates:
    """Common subexpressions that could be eliminated in a method.

    Attributes:
        names: of the features.
        values: int64 [num_candidates, num_features], as the JIT reports them.
        viable: bool [num_candidates], false where the JIT would refuse.
    """

    names: tuple[str, ...]
    values: np.ndarray
    viable: np.ndarray

    def __len__(self) -> int:
        return len(self.viable)


@dataclass(frozen=True)
class CompiledUnit:
    """A method as it was compiled.

    Attributes:
        score: PerfScore; what is to be small.
        code_bytes: size of the code.
        requested: positions that were asked for, or that the heuristic chose.
        num_performed: eliminations done; fewer than requested where the JIT refused some.
        candidates: as of this compile.
    """

    score: float
    code_bytes: int
    requested: Decisions
    num_performed: int
    candidates: Candidates


@dataclass(frozen=True)
class Failed:
    """Why a compile gave no metrics.

    Attributes:
        kind: as stored in ``failure`` columns. ``jit_error`` (the JIT rejected the method, or failed on it; it would
            again), ``missing_data`` (these decisions made the JIT ask for what was not recorded; it would again),
            ``no_metrics`` (success without a line of metrics: a recorded exception, or a Release JIT),
            ``protocol_error`` (the reply cannot be read, is for another request, or there are two), ``crashed`` (the
            process ended instead of finishing its reply), ``timeout`` (no whole reply within the deadline),
            ``unknown_method`` (the process ended with exit code 255: the collection has no such method, or cannot be
            read), ``quarantined`` (nothing was sent: this method has ended too many processes before), ``no_score``
            (a PerfScore of 0, with which nothing can be compared), or ``worker`` (the worker died).
        message: what happened.
        returncode: exit status of a process that ended, negative for a signal.
        stderr: last few kilobytes of its stderr.
    """

    kind: str
    message: str
    returncode: int | None = None
    stderr: str = ""


Outcome = CompiledUnit | Failed
Outcomes = dict[Decisions | None, Outcome]
"""What is known of a method, by its decisions; None leaves them to the built-in heuristic."""
