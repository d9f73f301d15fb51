"""Every failure a user can cause or meet, as one tree of exceptions.

A message names the thing that is wrong and what to do about it. Programs print the message alone and
exit with ``exit_status``; a traceback means a defect in this package.
"""


class MlgoError(Exception):
    """Base of all errors raised on purpose."""

    exit_status = 1


class ConfigError(MlgoError):
    """The configuration holds an unknown key, a wrong type or a value out of range."""


class ArtifactError(MlgoError):
    """A file of the pipeline is missing, damaged, of another schema, or cannot be written."""


class PackageError(MlgoError):
    """A package is not installed or too old, or a file of the package index cannot be had or is not the pinned one."""


class CorpusError(MlgoError):
    """A recipe, a source distribution or the corpus made of them cannot be used."""


class ToolchainError(MlgoError):
    """No usable compiler: missing, too old, or without the interactive channel."""


class SuperPmiError(MlgoError):
    """The replay tool of the .NET JIT cannot be used: missing, unfit, silent, or asked what it must not be asked."""


class MetricsError(SuperPmiError):
    """A line that should be the metrics of a method is not."""


class WorkerError(MlgoError):
    """Workers cannot be had or reached: no cluster, no compiler on a node, no answer."""


class WorkerReleased(WorkerError):
    """No worker of this name is hosted: it was released, before the call or while it ran, or never created."""


class WorkerCrashed(WorkerError):
    """The process of a worker has ended, and not because it was asked to.

    Attributes:
        exit_code: negative for a signal; None if it could not be started.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class WorkerOverdue(WorkerError):
    """A worker took longer than it may, and was ended."""


class PolicyError(MlgoError):
    """A policy does not fit the task or the compiler's features."""


class TrainingError(MlgoError):
    """Learning cannot go on: no data, every candidate failed, or the loss is not a number."""


class TrialPruned(TrainingError):
    """A training of a study was worse than others at the same step, so it ended early."""


class NothingCompiled(TrainingError):
    """All compiles that a learner asked for have failed."""


class CompileError(MlgoError):
    """One compile failed. Rollouts turn it into a row; it never ends a run.

    Attributes:
        kind: short machine-readable reason, as stored in the ``failure`` columns.
    """

    kind = "compile"


class CompilerExit(CompileError):
    """The compiler ended with a non-zero status or by a signal."""

    kind = "exit"


class CompilerMemory(CompileError):
    """The compiler needed more memory than it was allowed."""

    kind = "memory"


class CompileTimeout(CompileError):
    """The compile as a whole exceeded its deadline."""

    kind = "timeout"


class ObjectError(CompileError):
    """The compiler ended well but its object file is missing or malformed."""

    kind = "object"


class RemarkError(CompileError):
    """The compiler ended well but its remarks, from which costs are read, are missing or malformed."""

    kind = "remarks"


class LinkError(CompileError):
    """The linker could not make one file of a project's objects."""

    kind = "link"


class ProgramError(CompileError):
    """A program that was built crashed, or what it did could not be counted."""

    kind = "program"


class ProgramOutput(ProgramError):
    """A program that was built printed something else than it should, or ended with another status than 0."""

    kind = "output"


class ProgramSize(ProgramError):
    """A program that was built is larger than it may be, so it was not run."""

    kind = "size"


class ProgramTimeout(ProgramError):
    """A program that was built did not end within its deadline."""

    kind = "endless"


class ChannelError(CompileError):
    """The conversation over the FIFO pair failed."""

    kind = "channel"


class ChannelTimeout(ChannelError):
    """The compiler neither asked nor ended within the deadline of one answer."""

    kind = "silent"


class TooManyQuestions(ChannelError):
    """The compiler asks on and on; registers that evict each other in a circle never come to rest."""

    kind = "questions"


class ProtocolError(ChannelError):
    """Bytes from the compiler that are not the interactive protocol."""

    kind = "protocol"


class ReplayMismatch(MlgoError):
    """A compile contradicts what an earlier one with the same key and answers has shown."""


def in_one_line(error: BaseException) -> str:
    """What an error says, to be part of a message: on one line, which is not long."""
    return " ".join(str(error).split())[:200]
