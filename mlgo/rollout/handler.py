"""What a worker does with a compile job: walk the module's trees, compile what they do not hold, keep that."""

from dataclasses import dataclass, replace

from mlgo.compiler.process import kill_children
from mlgo.compiler.session import CompileResult, compile_plain, compile_under_advice
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import CompileConfig
from mlgo.errors import CompileError, ReplayMismatch
from mlgo.replay import ReplayStore
from mlgo.rollout.copies import Copies
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.memory import Recollection, TreeMemory
from mlgo.rollout.outcome import CompileOutcome
from mlgo.tasks import get_task


@dataclass(frozen=True)
class MakeCompiler:
    """How a worker becomes one that compiles; sent to it once.

    Attributes:
        toolchain: compiler to use.
        task: decision problem.
        settings: level, size stop and deadlines.
        copies: what the modules' projects carry several times, so that sizes by shares are known.
        trees: where policies are walked before anything is compiled; None compiles everything.
    """

    toolchain: Toolchain
    task: str
    settings: CompileConfig
    copies: Copies | None = None
    trees: ReplayStore | None = None

    def __call__(self) -> "JobCompiler":
        """Get ready for jobs."""
        return JobCompiler(self)


class JobCompiler:
    """One job after another, one outcome each; a failed compile is an outcome too.

    Args:
        how: compiler, settings and trees.
    """

    def __init__(self, how: MakeCompiler) -> None:
        self._how, self._task = how, get_task(how.task)
        self._memory = TreeMemory(how.trees) if how.trees is not None else None

    def __call__(self, job: CompileJob) -> CompileOutcome:
        """Do a job.

        Raises:
            ReplayMismatch: the trees contradict the compiler; names the module and the remedy.
            ArtifactError: the trees are damaged or cannot be written.
        """
        if self._memory is None:
            return self._compile(job)
        found = self._memory.recall(job)
        if found.result is not None or found.spills is not None:
            return CompileOutcome(found.result, recalled=True, spills=found.spills)
        outcome = self._compile(found.job)
        if outcome.result is None:
            return outcome
        self._memory.keep(found.job, outcome.result)
        num_known = found.job.known.num_questions if found.job.known is not None else 0
        return replace(outcome, result=self._as_asked(job, found, outcome.result), num_known=num_known)

    def cancel(self) -> None:
        """End the compiler that runs now; called on another thread."""
        kill_children()

    def _as_asked(self, job: CompileJob, found: Recollection, result: CompileResult) -> CompileResult:
        """A compile may have been recorded for the trees alone, or without the known questions."""
        assert self._memory is not None
        return self._memory.complete(found, result) if job.record else replace(result, observations=b"")

    def _compile(self, job: CompileJob) -> CompileOutcome:
        how = self._how
        remark = self._task.done_remark if job.count_done else None
        num_copies = how.copies.of(job.module) if how.copies else None
        try:
            if job.advisor is None:
                return CompileOutcome(
                    compile_plain(
                        how.toolchain,
                        job.bitcode,
                        how.settings,
                        task=self._task,
                        remark=remark,
                        object_path=job.object_path,
                        num_copies=num_copies,
                    )
                )
            return CompileOutcome(
                compile_under_advice(
                    how.toolchain,
                    self._task,
                    job.bitcode,
                    job.advisor,
                    how.settings,
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
