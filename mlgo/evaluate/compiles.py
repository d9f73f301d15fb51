"""Compiles in workers: one job, one outcome, whatever happens."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from mlgo.base.config import LOCAL_WORKERS, CompileConfig, WorkersConfig
from mlgo.base.files import write_bytes
from mlgo.base.scratch import Closing, shared_folder
from mlgo.errors import MlgoError, NothingCompiled, ToolchainError
from mlgo.evaluate.worker import CompileJob, CompileOutcome, CompileWorkerSpec, Copies
from mlgo.host.program import ProgramRunner
from mlgo.host.tasks.ir2vec import OLDEST_LLVM
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain
from mlgo.pool import Hint, Pool, WorkerLost, open_pool
from mlgo.pool.tree_store import ReplayStore

_SLACK_S = 60.0
"""What a job may take besides its compile: reading trees, a busy machine. A compile has deadlines of its own."""


class CompileHost(Closing):
    """Runs compiles in workers that are started once and reused.

    Modules have a home: the worker whose memory holds their trees. Large modules come first.

    Attributes:
        num_compiled: of these, the ones that no tree held, failed ones included.
        num_known_questions: of these, the ones that were answered in advance.
        hidden: features that no policy may see: the heuristic's decision, where the settings do not tell it.

    Args:
        trees: policies are walked down them before anything is compiled.
        copies: what the modules' projects carry several times, so that sizes by shares are known.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        task_name: str,
        settings: CompileConfig,
        num_workers: int,
        trees: ReplayStore | None = None,
        copies: Copies | None = None,
        workers: WorkersConfig = LOCAL_WORKERS,
    ) -> None:
        task = get_task(task_name)
        task.check_objective(settings.objective)
        if task.ir2vec(settings.ir2vec) and toolchain.version[0] < OLDEST_LLVM:  # now, for one message
            raise ToolchainError(f"compile.ir2vec needs LLVM {OLDEST_LLVM} or newer, this is {toolchain.name}")
        task.check_told(settings.tell_heuristic)
        if settings.tell_heuristic and toolchain.quirks.default_hides_a_feature:
            raise ToolchainError(f"compile.tell_heuristic needs LLVM 21 or newer, this is {toolchain.name}")
        self.hidden = () if settings.tell_heuristic else task.default_features
        runner = None
        if task.measure.of_run:
            cache = (shared_folder() / "zig-cache").absolute()
            runner = ProgramRunner(toolchain.target, cache, settings.compile_timeout_s)
            runner.find_tools()  # as above
        self._trees = trees
        self.num_asked = self.num_compiled = self.num_questions = self.num_known_questions = 0
        shared, sha256 = trees and trees.shared_by(num_workers), toolchain.sha256 if workers.kind == "ray" else ""
        spec = CompileWorkerSpec(toolchain, task_name, settings, copies, shared, sha256, runner)
        deadline_s = 2 * settings.compile_timeout_s + _SLACK_S
        self._pool: Pool[CompileJob, CompileOutcome] = open_pool(workers, num_workers, spec, deadline_s=deadline_s)

    @property
    def num_workers(self) -> int:
        return self._pool.num_workers

    def compile_all(self, jobs: Sequence[CompileJob], label: str = "") -> list[CompileOutcome]:
        """Do all jobs; outcomes in the order of the jobs. Shows a progress bar when given a label."""
        outcomes = dict(self.compile_each(jobs, label))
        return [outcomes[position] for position in range(len(jobs))]

    def compile_each(self, jobs: Iterable[CompileJob], label: str = "") -> Iterator[tuple[int, CompileOutcome]]:
        """Do jobs and yield ``(position, outcome)`` as they end. Shows a progress bar when given a label."""
        total, hidden = len(jobs) if isinstance(jobs, Sequence) else None, None if label else True
        done = self._pool.map(jobs, lambda job: Hint(job.module, _num_bytes(job.bitcode)))
        for position, outcome in tqdm(done, label, total, unit="compile", disable=hidden, leave=False):
            if isinstance(outcome, WorkerLost):
                outcome = CompileOutcome(None, "worker", str(outcome))
            if outcome.learned is not None and self._trees is not None:  # of a machine that does not see our files
                self._trees.insert(*outcome.learned)
            if outcome.object_file is not None:
                write_bytes(*outcome.object_file)
            self.num_asked += 1
            if not outcome.recalled:
                self.num_compiled += 1
                self.num_known_questions += outcome.num_known
                self.num_questions += outcome.result.num_questions if outcome.result is not None else 0
            yield position, replace(outcome, learned=None, object_file=None)

    def close(self) -> None:
        self._pool.close()


@cache
def _num_bytes(bitcode: Path) -> float:
    """Size of a module, to which its compile time is roughly proportional; 1 where it is missing (the job says so)."""
    return float(bitcode.stat().st_size) if bitcode.exists() else 1.0


def check_failures(names: Sequence[str], outcomes: Sequence[CompileOutcome], max_share: float, setting: str) -> None:
    """Refuse compiles of which too many failed."""
    failed = [f"{name}: {one.reason}" for name, one in zip(names, outcomes, strict=True) if one.result is None]
    if len(failed) > max_share * len(outcomes):
        raise MlgoError(
            f"{len(failed)} of {len(outcomes)} compiles failed, more than {setting} allows ({max_share:g}); the first "
            f"is {failed[0]}"
        )


_MIN_SHARE = 0.5


class FailureRecord(NamedTuple):
    """How compiles of one module went."""

    compiles: int = 0
    failures: int = 0
    reason: str = ""  # kind and message of the last failure


class Quarantine:
    """Counts failures by module.

    A module is out once ``max_failures`` of its compiles, and at least half of all of them, have failed: one bad
    candidate does not condemn it. Whoever asks decides when; training asks between generations, so that the number of
    workers does not matter.

    Args:
        records: what `state` returned in an earlier run.
    """

    def __init__(self, max_failures: int, records: dict[str, dict[str, Any]] | None = None) -> None:
        self._max_failures = max_failures
        self._records = {key: FailureRecord(**record) for key, record in (records or {}).items()}

    def note(self, module: str, reason: str) -> None:
        """Count one more compile of a module, and why it failed; empty where it did not."""
        old = self._records.get(module, FailureRecord())
        self._records[module] = FailureRecord(old.compiles + 1, old.failures + bool(reason), reason or old.reason)

    def __contains__(self, module: str) -> bool:
        """Whether a module is out."""
        record = self._records.get(module, FailureRecord())
        return record.failures >= max(self._max_failures, _MIN_SHARE * record.compiles)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Add the last failure of the module that failed most often to a NothingCompiled of the block."""
        try:
            yield
        except NothingCompiled as error:
            failed = [(record.failures, key, record.reason) for key, record in self._records.items() if record.failures]
            if not failed:
                raise
            _, key, reason = max(failed)
            raise NothingCompiled(f"{error} (for example {key}: {' '.join(reason.split())})") from error

    def state(self) -> dict[str, dict[str, Any]]:
        """All records as plain values, by module key."""
        return {key: record._asdict() for key, record in sorted(self._records.items())}

    def rows(self) -> list[dict[str, Any]]:
        """Every module with a failure, in order, as rows of ``artifacts.FAILURES``."""
        return [
            {"module": key, **record, "quarantined": key in self}
            for key, record in self.state().items()
            if record["failures"]
        ]
