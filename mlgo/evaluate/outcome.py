"""What became of a compile job."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlgo.evaluate.jobs import CompileJob
from mlgo.host.session import CompileResult


@dataclass(frozen=True)
class CompileOutcome:
    """What became of a job.

    Attributes:
        result: scores and answers; None when the compile failed.
        failure: kind of failure, empty on success.
        message: what went wrong.
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
        """The same with what the job wants read of the compile, in place of what it is read from.

        Raises:
            PolicyError: the compiler does not offer a feature.
        """
        if job.read is None or self.result is None:
            return self
        rest = replace(self.result, header=None, answers=b"", observations=b"", credit=None)
        return replace(self, result=rest, read=job.read(job.module, self.result))
