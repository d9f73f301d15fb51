"""Compiles in worker processes: one job, one outcome, whatever happens."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

import numpy as np
from tqdm import tqdm

from mlgo.compiler.session import CompileResult, compile_plain, compile_under_advice
from mlgo.compiler.spills import SpillCosts, total_cost
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import CompileConfig
from mlgo.errors import CompileError, MlgoError, ReplayMismatch
from mlgo.rollout.copies import Copies
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.memory import Recollection, TreeMemory
from mlgo.tasks import get_task
from mlgo.workers import LocalPool, WorkerLost


@dataclass(frozen=True)
class CompileOutcome:
    """What became of a job.

    Attributes:
        result: sizes and answers; None when the compile failed, or only its costs were wanted and were known.
        failure: kind of failure, empty on success.
        message: what went wrong.
        recalled: found in the module's trees, without a compile; ``seconds`` is then 0.
        spills: costs of all functions of a compile that was never done, put together from trees; no sizes are known.
    """

    result: CompileResult | None
    failure: str = ""
    message: str = ""
    recalled: bool = False
    spills: tuple[SpillCosts, ...] | None = None

    @property
    def failed(self) -> bool:
        """Whether a compile ended without a result."""
        return self.result is None and self.spills is None

    def score(self, objective: str) -> float:
        """Cost by the name of the objective; NaN when the compile failed.

        Raises:
            ValueError: another objective than the one that was asked for alone.
        """
        if self.spills is not None:
            if objective != "spill_cost":
                raise ValueError(f"{objective} is not known: the job asked for costs only")
            return float(total_cost(self.spills))
        return float("nan") if self.result is None else float(getattr(self.result, objective))


class CompileHost:
    """Runs compiles in worker processes that are started once and reused.

    Attributes:
        num_asked: jobs so far.
        num_compiled: of these, the ones that no tree held, failed ones included.

    Args:
        toolchain: compiler to use.
        task_name: decision problem.
        settings: level, size stop and deadlines.
        num_workers: processes.
        memory: decision trees; policies are walked down them before anything is compiled.
        copies: what the modules' projects carry several times, so that sizes by shares are known.

    Raises:
        ConfigError: unknown task, or an objective that its compiles do not have.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        task_name: str,
        settings: CompileConfig,
        num_workers: int,
        memory: TreeMemory | None = None,
        copies: Copies | None = None,
    ) -> None:
        get_task(task_name).check_objective(settings.objective)
        self._memory = memory
        self.num_asked = self.num_compiled = 0
        self._pool: LocalPool[CompileJob, CompileOutcome] = LocalPool(
            num_workers, partial(make_handler, toolchain, task_name, settings, copies)
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
        recalled: deque[tuple[int, CompileOutcome]] = deque()
        needed: dict[int, tuple[int, CompileJob, Recollection]] = {}
        orders = itertools.count()

        def needing_a_compile() -> Iterator[CompileJob]:
            for position, job in enumerate(jobs):  # at the moment a worker is free, so trees are as full as can be
                self.num_asked += 1
                found = self._memory.recall(job) if self._memory else Recollection(job)
                if found.result is not None or found.spills is not None:
                    recalled.append((position, CompileOutcome(found.result, recalled=True, spills=found.spills)))
                else:
                    needed[next(orders)] = (position, job, found)
                    yield found.job

        for order, outcome in self._pool.map(needing_a_compile()):
            self.num_compiled += 1
            position, job, found = needed.pop(order)
            if isinstance(outcome, WorkerLost):
                lost = f"its worker died with exit code {outcome.exit_code}"
                outcome = CompileOutcome(None, "worker", lost)
            if self._memory and outcome.result is not None:
                self._memory.keep(found.job, outcome.result)
                whole = (  # recorded for the trees alone, or without the known questions
                    self._memory.complete(found, outcome.result)
                    if job.record
                    else replace(outcome.result, observations=b"")
                )
                outcome = replace(outcome, result=whole)
            yield position, outcome
            while recalled:
                yield recalled.popleft()
        yield from recalled

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


def make_handler(
    toolchain: Toolchain, task_name: str, settings: CompileConfig, copies: Copies | None = None
) -> Callable[[CompileJob], CompileOutcome]:
    """What a worker does with a job: compile it; a failed compile is an outcome too."""
    task = get_task(task_name)

    def handle(job: CompileJob) -> CompileOutcome:
        remark = task.done_remark if job.count_done else None
        num_copies = copies.of(job.module) if copies else None
        try:
            if job.advisor is None:
                return CompileOutcome(
                    compile_plain(
                        toolchain,
                        job.bitcode,
                        settings,
                        task=task,
                        remark=remark,
                        object_path=job.object_path,
                        num_copies=num_copies,
                    )
                )
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
                    known=job.known,
                    object_path=job.object_path,
                    num_copies=num_copies,
                )
            )
        except CompileError as error:
            return CompileOutcome(None, error.kind, str(error))
        except ReplayMismatch as error:
            raise ReplayMismatch(
                f"{job.module}: {error}; delete {job.sha256}.tree in data/work/replay, or see mlgo replay verify"
            ) from error

    return handle
