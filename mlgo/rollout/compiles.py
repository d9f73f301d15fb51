"""Compiles in worker processes: one job, one outcome, whatever happens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import numpy as np
from tqdm import tqdm

from mlgo.compiler.session import CompileResult, compile_plain, compile_under_advice
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import CompileConfig
from mlgo.errors import CompileError, MlgoError
from mlgo.tasks import Advisor, get_task
from mlgo.workers import LocalPool, WorkerLost


@dataclass(frozen=True)
class CompileJob:
    """One compile to do.

    Attributes:
        module: key of the module, for messages.
        bitcode: its file.
        advisor: answers the questions; None compiles without a channel.
        with_default: ask for the heuristic's decision as a feature.
        record: bring the raw observations back.
        count_done: count the changes made in ``num_remarks``, instead of watching for an early stop.
    """

    module: str
    bitcode: Path
    advisor: Advisor | None
    with_default: bool = False
    record: bool = False
    count_done: bool = False


@dataclass(frozen=True)
class CompileOutcome:
    """What became of a job.

    Attributes:
        result: sizes and answers; None when the compile failed.
        failure: kind of failure, empty on success.
        message: what went wrong.
    """

    result: CompileResult | None
    failure: str = ""
    message: str = ""

    def score(self, objective: str) -> float:
        """Size in bytes by the name of the objective; NaN when the compile failed."""
        return float("nan") if self.result is None else float(getattr(self.result, objective))


class CompileHost:
    """Runs compiles in worker processes that are spawned once and reused.

    Args:
        toolchain: compiler to use.
        task_name: decision problem.
        settings: level, size stop and deadlines.
        num_workers: processes.
    """

    def __init__(self, toolchain: Toolchain, task_name: str, settings: CompileConfig, num_workers: int) -> None:
        self._pool: LocalPool[CompileJob, CompileOutcome] = LocalPool(
            num_workers, partial(_make_handler, toolchain, task_name, settings)
        )

    def compile_all(self, jobs: Sequence[CompileJob], label: str = "") -> list[CompileOutcome]:
        """Do all jobs; outcomes in the order of the jobs. Shows a progress bar when given a label."""
        outcomes: list[CompileOutcome | None] = [None] * len(jobs)
        for position, outcome in tqdm(
            self.compile_each(jobs), label, len(jobs), unit="compile", disable=None if label else True, smoothing=0.1
        ):
            outcomes[position] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def compile_each(self, jobs: Iterable[CompileJob]) -> Iterator[tuple[int, CompileOutcome]]:
        """Do jobs and yield ``(position, outcome)`` as they end."""
        for position, outcome in self._pool.map(jobs):
            if isinstance(outcome, WorkerLost):
                lost = f"its worker died with exit code {outcome.exit_code}"
                outcome = CompileOutcome(None, "worker", lost)
            yield position, outcome

    def close(self) -> None:
        """Stop the workers."""
        self._pool.close()

    def __enter__(self) -> "CompileHost":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_failures(
    names: Sequence[str], outcomes: Sequence[CompileOutcome], max_share: float, setting: str
) -> np.ndarray:
    """Tell which compiles succeeded, unless too many failed.

    Args:
        names: module keys.
        outcomes: their outcomes.
        max_share: share of failures that is still accepted.
        setting: name of the setting that holds it, for the message.

    Returns:
        bool [num_modules], True where the compile succeeded.

    Raises:
        MlgoError: more failures than accepted; names the first.
    """
    good = np.array([outcome.result is not None for outcome in outcomes], bool)
    num_failed = int((~good).sum())
    if num_failed > max_share * len(good):
        first = int(np.argmin(good))
        raise MlgoError(
            f"{num_failed} of {len(good)} compiles failed, more than {setting} allows ({max_share:g}); the first is "
            f"{names[first]}: {outcomes[first].failure}: {outcomes[first].message}"
        )
    return good


def _make_handler(
    toolchain: Toolchain, task_name: str, settings: CompileConfig
) -> Callable[[CompileJob], CompileOutcome]:
    task = get_task(task_name)

    def handle(job: CompileJob) -> CompileOutcome:
        remark = task.done_remark if job.count_done else None
        try:
            if job.advisor is None:
                return CompileOutcome(compile_plain(toolchain, job.bitcode, settings, remark=remark))
            return CompileOutcome(
                compile_under_advice(
                    toolchain,
                    task,
                    job.bitcode,
                    job.advisor,
                    settings,
                    with_default=job.with_default,
                    record=job.record,
                    remark=remark,
                )
            )
        except CompileError as error:
            return CompileOutcome(None, error.kind, str(error))

    return handle
