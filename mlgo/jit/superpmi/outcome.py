"""What came of one request to SuperPMI: metrics, or one of the ways in which there are none."""

from dataclasses import dataclass

from mlgo.jit.superpmi.metrics import MethodMetrics

EXIT_CODES = {
    0: "no failure",
    1: "some methods failed to compile",
    2: "code differs",
    3: "some methods need data that was not recorded",
    254: "the JIT failed to start: it cannot be loaded, or has another JIT-EE interface version than the collection",
    255: "general failure: a file or a method of it cannot be read",
}
"""Meaning of SuperPMI's exit codes (src/coreclr/tools/superpmi/superpmi/superpmi.cpp); negative ones end as 256 - n."""

JIT_FAILED_TO_START, GENERAL_FAILURE = 254, 255


def describe_exit(returncode: int) -> str:
    """Say what an exit code means."""
    if returncode < 0:
        return f"signal {-returncode}"
    return f"exit {returncode}, {EXIT_CODES.get(returncode, 'of no known meaning')}"


ENDING = frozenset({"protocol_error", "crashed", "timeout", "unknown_method"})
"""Kinds of failures after which a process is of no further use; the request may be sent to a new one."""


@dataclass(frozen=True)
class Failure:
    """Why there are no metrics.

    Attributes:
        kind: ``jit_error`` (the JIT rejected the method, or failed on it; it would again), ``missing_data`` (these
            decisions made the JIT ask for what was not recorded; it would again), ``no_metrics`` (success without a
            line of metrics: a recorded exception, or a Release JIT), ``protocol_error`` (the reply cannot be read, is
            for another request, or there are two), ``crashed`` (the process ended instead of finishing its reply),
            ``timeout`` (no whole reply within the deadline), ``unknown_method`` (the process ended with exit code 255:
            the collection has no such method, or cannot be read), or ``quarantined`` (nothing was sent: this method
            has ended too many processes before).
        message: what happened.
        returncode: exit status of a process that ended, negative for a signal.
        stderr: last few kilobytes of its stderr.
        cause: what a quarantined method did the last time.
    """

    kind: str
    message: str
    returncode: int | None = None
    stderr: str = ""
    cause: "Failure | None" = None


Outcome = MethodMetrics | Failure
