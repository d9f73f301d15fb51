"""One compile to do, and what became of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlgo.host.known import AnswerPrefix
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import Advisor


@dataclass(frozen=True)
class CompileJob:
    """One compile to do.

    Attributes:
        advisor: answers the questions; None compiles without a channel.
        with_heuristic_feature: ask for the heuristic's decision as a feature.
        count_done: count the changes made in ``num_remarks``, instead of watching for an early stop.
        sha256: hash of the bitcode; with it, the compile may be found in, and is added to, the module's tree.
        known: first questions of each context, answered without waiting for them.
        object_path: where to keep the object file; such a job is always compiled.
        optimization: another level than the configured one; empty for that.
        costs_only: of the outcome, only what functions cost is wanted. Their trees tell that of compiles that were
            never done, but no sizes.
        with_credit: tell the functions of the decisions, and their sizes; such a job is always compiled, as trees do
            not hold that.
        read: what the worker makes of the module's key and its compile. It stands in the outcome, in place of
            header, answers, observations and functions, so that the driver neither receives nor decodes these.
    """

    module: str
    bitcode: Path
    advisor: Advisor | None
    with_heuristic_feature: bool = False
    record: bool = False
    count_done: bool = False
    sha256: str = ""
    known: AnswerPrefix | None = None
    object_path: Path | None = None
    optimization: str = ""
    costs_only: bool = False
    with_credit: bool = False
    read: Callable[[str, CompileResult], Any] | None = None


@dataclass(frozen=True)
class CompileOutcome:
    """What became of a job.

    Attributes:
        result: scores and answers; None when the compile failed.
        failure: kind of failure, empty on success.
        recalled: found in the module's trees, without a compile; ``seconds`` is then 0.
        num_known: questions of a compile that were answered in advance.
        learned: hash of the module and the compile with all its observations, for trees that the worker does not see.
        object_file: path and content of the object, where the worker cannot write it where it belongs.
        read: what the worker has read of the compile, where the job asked for that.
    """

    result: CompileResult | None
    failure: str = ""
    message: str = ""
    recalled: bool = False
    num_known: int = 0
    learned: tuple[str, CompileResult] | None = None
    object_file: tuple[Path, bytes] | None = None
    read: Any = None

    @property
    def reason(self) -> str:
        """Kind of failure and what went wrong; empty where nothing did."""
        return f"{self.failure}: {self.message}" if self.result is None else ""

    def score(self, objective: str) -> float:
        """Cost by the name of the objective; NaN when the compile failed.

        Raises:
            ValueError: it is not known, see `CompileJob.costs_only`.
        """
        return float("nan") if self.result is None else self.result.score(objective)

    def read_for(self, job: CompileJob) -> "CompileOutcome":
        """The same with what the job wants read of the compile, in place of what it is read from."""
        if job.read is None or self.result is None:
            return self
        rest = replace(self.result, header=None, answers=b"", observations=b"", credit=None)
        return replace(self, result=rest, read=job.read(job.module, self.result))
