"""What a worker does with a compile job: walk the module's trees, compile what they do not hold, keep that."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompileError, ReplayMismatch
from mlgo.evaluate.copies import Copies
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.memory import TreeMemory
from mlgo.evaluate.outcome import CompileOutcome
from mlgo.host.execution import ProgramRunner
from mlgo.host.process import kill_children
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain
from mlgo.pool.trees import ReplayStore


@dataclass(frozen=True)
class MakeCompiler:
    """How a worker becomes one that compiles; sent to it once.

    Attributes:
        toolchain: compiler to use.
        task: decision problem.
        settings: level, size stop and deadlines.
        copies: what the modules' projects carry several times, so that sizes by shares are known.
        trees: where policies are walked before anything is compiled; None compiles everything.
        compiler_sha256: hash of the compiler, which machines that are not this one have to have as well.
        runner: runs the programs that modules are; None where the score is of objects.
        sends_back: whether trees and objects of this machine are lost for the driver unless outcomes carry them.
    """

    toolchain: Toolchain
    task: str
    settings: CompileConfig
    copies: Copies | None = None
    trees: ReplayStore | None = None
    compiler_sha256: str = ""
    runner: ProgramRunner | None = None
    sends_back: bool = False

    def moved_to(self, folder: Path, read: Callable[[Path], bytes | None]) -> "MakeCompiler":
        """The same for a machine that does not see the driver's files.

        Args:
            folder: on that machine, for this run.
            read: gives the content of one of the driver's files, None where there is none.
        """
        trees = self.trees.moved_to(folder / "replay", read) if self.trees is not None else None
        runner = self.runner and replace(self.runner, cache_dir=folder / "zig-cache")
        return replace(self, trees=trees, runner=runner, sends_back=True)

    def check(self) -> None:
        """See that the compiler runs here, is the one that results are to come from, and that trees can be kept.

        Raises:
            ToolchainError: the compiler is missing, does not run, or is another; or what programs need is missing.
            ArtifactError: the folder of the trees is not writable.
        """
        self.toolchain.check_hash(self.compiler_sha256)
        if self.runner is not None:
            self.runner.find_tools()
        if self.trees is not None:
            self.trees.check_writable()

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
        self._memory = TreeMemory(how.trees, whole=how.sends_back) if how.trees is not None else None

    def __call__(self, job: CompileJob) -> CompileOutcome:
        """Do a job.

        Raises:
            ReplayMismatch: the trees contradict the compiler; names the module and the remedy.
            ArtifactError: the trees are damaged or cannot be written.
        """
        return self._done(job).read_for(job)

    def _done(self, job: CompileJob) -> CompileOutcome:
        if job.object_path is not None and self._how.sends_back:
            return self._with_object(job)
        if self._memory is None:
            return self._compile(job)
        found = self._memory.recall(job)
        if found.result is not None:
            return CompileOutcome(found.result, recalled=True)
        outcome = self._compile(found.job)
        if outcome.result is None:
            return outcome
        self._memory.keep(found.job, outcome.result)
        num_known = found.job.known.num_questions if found.job.known is not None else 0
        whole = self._memory.complete(found, outcome.result)
        return replace(
            outcome,
            result=whole if job.record else replace(whole, observations=b""),
            num_known=num_known,
            learned=(job.sha256, whole) if self._how.sends_back and found.job.record else None,
        )

    def _with_object(self, job: CompileJob) -> CompileOutcome:
        with scratch_directory() as folder:
            assert job.object_path is not None
            path = folder / "object.o"
            outcome = self._compile(replace(job, object_path=path))
            return replace(outcome, object_file=(job.object_path, path.read_bytes())) if path.exists() else outcome

    def cancel(self) -> None:
        """End the compiler that runs now; called on another thread."""
        kill_children()

    def _compile(self, job: CompileJob) -> CompileOutcome:
        how = self._how
        remark = self._task.done_remark if job.count_done else None
        num_copies = how.copies.of(job.module) if how.copies else None
        level = {"optimization": job.optimization} if job.optimization else {}
        settings = how.settings.model_copy(update=level)
        try:
            if job.advisor is None:
                return CompileOutcome(
                    compile_plain(
                        how.toolchain,
                        job.bitcode,
                        settings,
                        task=self._task,
                        remark=remark,
                        object_path=job.object_path,
                        num_copies=num_copies,
                        runner=how.runner,
                    )
                )
            return CompileOutcome(
                compile_under_advice(
                    how.toolchain,
                    self._task,
                    job.bitcode,
                    job.advisor,
                    settings,
                    with_default=job.with_default,
                    record=job.record,
                    remark=remark,
                    known=job.known,
                    object_path=job.object_path,
                    num_copies=num_copies,
                    with_credit=job.with_credit,
                    runner=how.runner,
                )
            )
        except CompileError as error:
            return CompileOutcome(None, error.kind, str(error))
        except ReplayMismatch as error:
            raise ReplayMismatch(
                f"{job.module}: {error}; delete {job.sha256}.tree in data/work/replay, or see mlgo replay verify"
            ) from error
