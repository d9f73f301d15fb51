"""What became of a compile job."""

from dataclasses import dataclass
from pathlib import Path

from mlgo.compiler.session import CompileResult
from mlgo.core.measures import get_measure
from mlgo.core.measures.remarks import SpillCosts


@dataclass(frozen=True)
class CompileOutcome:
    """What became of a job.

    Attributes:
        result: sizes and answers; None when the compile failed, or only its costs were wanted and were known.
        failure: kind of failure, empty on success.
        message: what went wrong.
        recalled: found in the module's trees, without a compile; ``seconds`` is then 0.
        spills: costs of all functions of a compile that was never done, put together from trees; no sizes are known.
        num_known: questions of a compile that were answered in advance.
        learned: hash of the module and the compile with all its observations, for trees that the worker does not see.
        object_file: path and content of the object, where the worker cannot write it where it belongs.
    """

    result: CompileResult | None
    failure: str = ""
    message: str = ""
    recalled: bool = False
    spills: tuple[SpillCosts, ...] | None = None
    num_known: int = 0
    learned: tuple[str, CompileResult] | None = None
    object_file: tuple[Path, bytes] | None = None

    @property
    def failed(self) -> bool:
        """Whether a compile ended without a result."""
        return self.result is None and self.spills is None

    @property
    def reason(self) -> str:
        """Kind of failure and what went wrong; empty where nothing did."""
        return f"{self.failure}: {self.message}" if self.failed else ""

    def score(self, objective: str) -> float:
        """Cost by the name of the objective; NaN when the compile failed.

        Raises:
            ValueError: another objective than the one that was asked for alone.
        """
        if self.spills is not None:
            return get_measure(objective).of_functions(self.spills)
        return float("nan") if self.result is None else self.result.score(objective)
