"""What came of one request to SuperPMI: metrics, or one of the ways in which there are none."""

from dataclasses import dataclass
from typing import ClassVar

from mlgo.problems.jit.metrics import MethodMetrics

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


@dataclass(frozen=True)
class Ok:
    """The method was compiled.

    Attributes:
        metrics: what it gave.
    """

    metrics: MethodMetrics
    kind: ClassVar[str] = "ok"


@dataclass(frozen=True)
class Failed:
    """There are no metrics.

    Attributes:
        message: what happened.
        kind: short machine-readable reason.
        ends_process: the process that gave it is of no further use; the request may be sent to a new one.
    """

    message: str
    kind: ClassVar[str] = "failed"
    ends_process: ClassVar[bool] = False


@dataclass(frozen=True)
class JitError(Failed):
    """The JIT rejected the method, or failed on it; it would again."""

    kind: ClassVar[str] = "jit_error"


@dataclass(frozen=True)
class MissingData(Failed):
    """These decisions made the JIT ask for what was not recorded; it would again."""

    kind: ClassVar[str] = "missing_data"


@dataclass(frozen=True)
class NoMetrics(Failed):
    """Success without a line of metrics: a recorded exception, or a JIT that has no such line (Release)."""

    kind: ClassVar[str] = "no_metrics"


@dataclass(frozen=True)
class ProtocolViolation(Failed):
    """The reply cannot be read, is for another request, or there are two."""

    kind: ClassVar[str] = "protocol_error"
    ends_process: ClassVar[bool] = True


@dataclass(frozen=True)
class Crashed(Failed):
    """The process ended instead of finishing its reply.

    Attributes:
        returncode: exit status, negative for a signal.
        stderr: last few kilobytes of stderr.
    """

    returncode: int
    stderr: str
    kind: ClassVar[str] = "crashed"
    ends_process: ClassVar[bool] = True


@dataclass(frozen=True)
class TimedOut(Failed):
    """No whole reply within the deadline."""

    kind: ClassVar[str] = "timeout"
    ends_process: ClassVar[bool] = True


@dataclass(frozen=True)
class UnknownMethod(Failed):
    """The process ended with exit code 255: the collection has no such method, or cannot be read.

    Attributes:
        stderr: last few kilobytes of stderr.
    """

    stderr: str
    kind: ClassVar[str] = "unknown_method"
    ends_process: ClassVar[bool] = True


@dataclass(frozen=True)
class Quarantined(Failed):
    """Nothing was sent: this method has ended too many processes before.

    Attributes:
        cause: what it did the last time.
    """

    cause: Failed
    kind: ClassVar[str] = "quarantined"


Outcome = Ok | Failed
