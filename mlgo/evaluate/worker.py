"""Compiles in a worker: what to do, what becomes of it, and the worker, which asks the response tree first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mlgo.base.config import CompileConfig
from mlgo.base.files import content_hash
from mlgo.base.scratch import scratch_directory
from mlgo.base.types import TensorSpec
from mlgo.errors import CompileError, ReplayMismatch
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.log import Header
from mlgo.host.process import kill_children
from mlgo.host.program import ProgramRunner
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.task import Advisor, Guard, PureAdvisor, Task, get_task
from mlgo.host.toolchain import Toolchain
from mlgo.pool.response_tree import ResponseTree, Walk
from mlgo.pool.tree_store import ReplayStore, TreeKey

Copies = Mapping[str, Mapping[bytes, int]]
"""Modules that carry a COMDAT group, by project and signature; only groups that several carry.

Of what modules carry together, the program has one copy.
"""


@dataclass(frozen=True)
class CompileJob:
    """One compile to do."""

    module: str
    bitcode: Path
    advisor: Advisor | None  # answers the questions; None compiles without a channel
    with_heuristic_feature: bool = False  # ask for the heuristic's decision as a feature
    record: bool = False
    count_done: bool = False  # count the changes made in `num_remarks`, instead of watching for an early stop
    sha256: str = ""  # hash of the bitcode; with it, the compile may be found in, and is added to, the module's tree
    known: AnswerPrefix | None = None  # first questions of each context, answered without waiting for them
    object_path: Path | None = None  # where to keep the object file; such a job is always compiled
    optimization: str = ""  # another level than the configured one; empty for that
    # Of the outcome, only what functions cost is wanted. Their trees tell that of compiles that were never done, but no
    # sizes.
    costs_only: bool = False
    # Tell the functions of the decisions, and their sizes; such a job is always compiled, as trees do not hold that.
    with_credit: bool = False
    # What the worker makes of the module's key and its compile. It stands in the outcome, in place of header, answers,
    # observations and functions, so that the driver neither receives nor decodes these.
    read: Callable[[str, CompileResult], Any] | None = None


@dataclass(frozen=True)
class CompileOutcome:
    """What became of a job."""

    result: CompileResult | None  # scores and answers; None when the compile failed
    failure: str = ""  # kind of failure, empty on success
    message: str = ""
    recalled: bool = False  # found in the module's trees, without a compile; `seconds` is then 0
    num_known: int = 0  # questions of a compile that were answered in advance
    # Hash of the module and the compile with all its observations, for trees that the worker does not see.
    learned: tuple[str, CompileResult] | None = None
    # Path and content of the object, where the worker cannot write it where it belongs.
    object_file: tuple[Path, bytes] | None = None
    read: Any = None  # what the worker has read of the compile, where the job asked for that

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


def copies_hash(copies: Copies) -> str:
    """Hash of all that is known of copies."""
    return content_hash(
        {project: sorted((name.hex(), num) for name, num in groups.items()) for project, groups in copies.items()}
    )


def tree_key(toolchain: Toolchain, task: Task, settings: CompileConfig, copies: Copies | None = None) -> TreeKey:
    """Key of the trees that compiles of this kind belong to."""
    shares = [] if copies is None else [copies_hash(copies)]  # sizes by shares hold for these shares only
    vocabulary = task.ir2vec(settings.ir2vec)
    words = Path(vocabulary.name) if vocabulary else None
    asking = task.flags(Path("BASE"), 1.0, with_heuristic_feature=settings.tell_heuristic, vocabulary=words)
    # What a linked file comes to depends on its link; all else that the record says is in the modules.
    linking = settings.ships.lld_options + (["unwind=no"] if settings.ships.unwind is False else [])
    options = content_hash([toolchain.name, *toolchain.back_end[1:], *asking, *shares, *linking])
    return TreeKey(
        toolchain.sha256, toolchain.target, task.name, settings.optimization, settings.size_stop_factor, options
    )


@dataclass(frozen=True)
class CompileWorkerSpec:
    """How a worker becomes one that compiles; sent to it once."""

    toolchain: Toolchain
    task: str
    settings: CompileConfig
    copies: Copies | None = None  # what the modules' projects carry several times, so that sizes by shares are known
    trees: ReplayStore | None = None  # where policies are walked before anything is compiled; None compiles everything
    compiler_sha256: str = ""  # hash of the compiler, which machines that are not this one have to have as well
    runner: ProgramRunner | None = None  # runs the programs that modules are; None where the score is of objects
    # Whether trees and objects of this machine are lost for the driver unless outcomes carry them.
    sends_back: bool = False

    def moved_to(self, folder: Path, read: Callable[[Path], bytes | None]) -> "CompileWorkerSpec":
        """The same for a machine that does not see the driver's files.

        Args:
            folder: on that machine, for this run.
            read: gives the content of one of the driver's files, None where there is none.
        """
        trees = self.trees.moved_to(folder / "replay", read) if self.trees is not None else None
        runner = self.runner and replace(self.runner, cache_dir=folder / "zig-cache")
        return replace(self, trees=trees, runner=runner, sends_back=True)

    def check(self) -> None:
        """See that the compiler runs here, is the one that results are to come from, and that trees can be kept."""
        self.toolchain.check_hash(self.compiler_sha256)
        if self.runner is not None:
            self.runner.find_tools()
        if self.trees is not None:
            self.trees.check_writable()

    def __call__(self) -> "CompileWorker":
        return CompileWorker(self)


class CompileWorker:
    """One job after another, one outcome each; a failed compile is an outcome too."""

    def __init__(self, spec: CompileWorkerSpec) -> None:
        self._spec, self._task, self._trees = spec, get_task(spec.task), spec.trees

    def __call__(self, job: CompileJob) -> CompileOutcome:
        """Do a job."""
        outcome = self._outcome(job)
        if job.read is None or outcome.result is None:
            return outcome
        rest = replace(outcome.result, header=None, answers=b"", observations=b"", credit=None)
        return replace(outcome, result=rest, read=job.read(job.module, outcome.result))

    def cancel(self) -> None:
        """End the compiler that runs now; called on another thread."""
        kill_children()

    def _outcome(self, job: CompileJob) -> CompileOutcome:
        if job.object_path is not None and self._spec.sends_back:
            with scratch_directory() as folder:
                path = folder / "object.o"
                outcome = self._compile(replace(job, object_path=path))
                return replace(outcome, object_file=(job.object_path, path.read_bytes())) if path.exists() else outcome
        rest = self._unknown_part(job)
        if isinstance(rest, CompileResult):
            return CompileOutcome(rest, recalled=True)
        outcome = self._compile(rest.job)
        if outcome.result is None:
            return outcome
        stored = self._store(rest.job, outcome.result)
        whole = _with_known_observations(rest, outcome.result)
        return replace(
            outcome,
            result=whole if job.record else replace(whole, observations=b""),
            num_known=rest.job.known.num_questions if rest.job.known is not None else 0,
            learned=(job.sha256, whole) if stored and self._spec.sends_back else None,
        )

    def _unknown_part(self, job: CompileJob) -> "CompileResult | _Remainder":
        """What the tree leaves to compile of a job, or its result."""
        if self._trees is None or not job.sha256 or not isinstance(job.advisor, PureAdvisor):
            return _Remainder(job)
        if job.with_heuristic_feature or job.count_done or job.object_path is not None:
            return _Remainder(job)
        trees = self._trees.load(job.sha256)
        if trees is None:
            return _Remainder(replace(job, record=True))
        header = trees.header
        walks = trees.walk(job.advisor.decide_for(header))
        result = trees.result_of(walks, job.record)
        if result is not None and not job.with_credit and (trees.whole is not None or job.costs_only):
            return result
        guard = self._task.guard(header) if self._task.guard else None
        if guard is not None:
            pairs = zip(trees.by_context, walks, strict=True)
            walks = [_without_illegal_end(header, tree, walk, guard) for tree, walk in pairs]
        recorded: tuple[bytes, ...] = ()
        if job.record or self._spec.sends_back:
            pairs = zip(trees.by_context, walks, strict=True)
            recorded = tuple(tree.observations_at(walk.nodes).tobytes() for tree, walk in pairs)
        return _Remainder(replace(job, record=True, known=trees.path_of(walks)), recorded)

    def _store(self, job: CompileJob, result: CompileResult) -> bool:
        """Add a recorded compile to its module's trees. After one with continuous answers nothing is stored."""
        header = result.header
        if self._trees is None or not job.sha256 or not job.record or job.with_heuristic_feature or job.count_done:
            return False
        if header is None or header.advice is None:
            return False
        if not is_discrete(header.advice):
            self._trees = None
            return False
        self._trees.insert(job.sha256, result, job.known)
        return True

    def _compile(self, job: CompileJob) -> CompileOutcome:
        how = self._spec
        remark = self._task.done_remark if job.count_done else None
        num_copies = None if how.copies is None else how.copies.get(job.module.partition("/")[0], {})
        level = {"optimization": job.optimization} if job.optimization else {}
        settings = how.settings.model_copy(update=level)
        if job.advisor is None:
            compiled = partial(compile_plain, how.toolchain, job.bitcode, settings, task=self._task)
        else:
            compiled = partial(
                compile_under_advice,
                how.toolchain,
                self._task,
                job.bitcode,
                job.advisor,
                settings,
                with_heuristic_feature=job.with_heuristic_feature,
                record=job.record,
                known=job.known,
                with_credit=job.with_credit,
            )
        try:
            return CompileOutcome(
                compiled(remark=remark, object_path=job.object_path, num_copies=num_copies, runner=how.runner)
            )
        except CompileError as error:
            return CompileOutcome(None, error.kind, str(error))
        except ReplayMismatch as error:
            raise ReplayMismatch(
                f"{job.module}: {error}; delete {job.sha256}.tree in data/work/replay, or see mlgo replay verify"
            ) from error


@dataclass(frozen=True)
class _Remainder:
    """What is left to compile of a job."""

    job: CompileJob
    observations: tuple[bytes, ...] = ()


def _with_known_observations(rest: _Remainder, result: CompileResult) -> CompileResult:
    """Put the known observations back into a compile, each where it belongs."""
    if not rest.observations or result.header is None:
        return result
    assert rest.job.known is not None
    new, parts, width = result.observations, [], result.header.payload_bytes
    counts = [count for _, count in result.visits()]
    for before, context, count in zip(rest.observations, rest.job.known.contexts, counts, strict=True):
        num_bytes = (count - len(context.checks)) * width
        parts += [before, new[:num_bytes]]
        new = new[num_bytes:]
    return replace(result, observations=b"".join(parts))


def _without_illegal_end(header: Header, tree: ResponseTree, walk: Walk, guard: Guard) -> Walk:
    """Leave the last answer to the session if its guard would change it."""
    if walk.leaf is not None or not len(walk.nodes):
        return walk
    assert header.advice is not None
    advice = walk.answers[-1].astype(header.advice.dtype).tobytes()
    if guard.answer(tree.observations_at(walk.nodes[-1:]).tobytes(), advice) == advice:
        return walk
    return Walk(walk.nodes[:-1], walk.answers[:-1], None)


def is_discrete(advice: TensorSpec) -> bool:
    """Whether answers can repeat at all, so that a tree of them is worth keeping; a priority in float32 hardly does."""
    return advice.num_elements == 1 and advice.dtype.kind in "iu"
