"""Response trees in front of the compiler: what is known is not compiled again."""

from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.base.config import CompileConfig
from mlgo.base.files import content_hash
from mlgo.base.types import TensorSpec
from mlgo.evaluate.copies import Copies
from mlgo.evaluate.jobs import CompileJob
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import Guard, PureAdvisor, Task, get_task
from mlgo.host.toolchain import Toolchain
from mlgo.pool.trees import ReplayStore, ResponseTree, TreeKey, Walk


def tree_key(toolchain: Toolchain, task: Task, settings: CompileConfig, copies: Copies | None = None) -> TreeKey:
    """Key of the trees that compiles of this kind belong to."""
    shares = [copies.sha256] if copies else []  # sizes by shares hold for these shares only
    vocabulary = task.ir2vec(settings.ir2vec)
    words = Path(vocabulary.name) if vocabulary else None
    asking = task.flags(Path("BASE"), 1.0, with_default=settings.tell_heuristic, vocabulary=words)
    options = [toolchain.name, *toolchain.back_end[1:], *asking, *shares]
    return TreeKey(
        toolchain.sha256,
        toolchain.target,
        task.name,
        settings.optimization,
        settings.size_stop_factor,
        content_hash(options),
    )


@dataclass(frozen=True)
class Recollection:
    """What the trees of a module know of a job.

    Attributes:
        job: what is left to do, its first questions answered where they are known.
        result: when nothing is left to do, see `ModuleTrees.result_of`.
        observations: raw observations of the known questions of each context, if the job is to be recorded.
    """

    job: CompileJob
    result: CompileResult | None = None
    observations: tuple[bytes, ...] = ()


class TreeMemory:
    """Finds compiles in the trees and adds new ones to them.

    Attributes:
        store: the trees.

    Args:
        store: trees of the compiler and flags in use.
        whole: whether `complete` gives all observations of a compile, also where the job did not ask for them.
    """

    def __init__(self, store: ReplayStore, *, whole: bool = False) -> None:
        self.store = store
        self._task, self._whole, self._can_keep = get_task(store.key.task), whole, True

    def recall(self, job: CompileJob) -> Recollection:
        """What the trees know of a job.

        Nothing, for jobs whose advisor looks at more than the observation, or that ask for the default; nor once the
        task has turned out to have continuous answers.
        """
        if not self._can_keep:
            return Recollection(job)
        if not (job.sha256 and isinstance(job.advisor, PureAdvisor)) or job.with_default or job.count_done:
            return Recollection(job)
        if job.object_path is not None:  # a tree holds results, not objects
            return Recollection(job)
        loaded = self.store.load(job.sha256)
        if loaded is None:
            return Recollection(replace(job, record=True))
        header, trees = loaded
        walks = trees.walk(job.advisor.decide_for(header))
        result = trees.result_of(header, walks, job.record)
        if result is not None and not job.with_credit and (trees.whole is not None or job.costs_only):
            return Recollection(job, result)
        guard = self._task.guard(header) if self._task.guard else None
        if guard is not None:
            pairs = zip(trees.by_context, walks, strict=True)
            walks = [_without_illegal_end(header, tree, walk, guard) for tree, walk in pairs]
        recorded: tuple[bytes, ...] = ()
        if job.record or self._whole:
            pairs = zip(trees.by_context, walks, strict=True)
            recorded = tuple(tree.observations[walk.nodes].tobytes() for tree, walk in pairs)
        known = trees.path_of(header, walks)
        return Recollection(replace(job, record=True, known=known), observations=recorded)

    def complete(self, found: Recollection, result: CompileResult) -> CompileResult:
        """Put the known observations back into a compile, each where it belongs."""
        if not found.observations or result.header is None:
            return result
        assert found.job.known is not None
        new, parts, width = result.observations, [], result.header.payload_bytes
        counts = [count for _, count in result.visits()]
        for before, known, count in zip(found.observations, found.job.known.contexts, counts, strict=True):
            num_bytes = (count - len(known.checks)) * width
            parts += [before, new[:num_bytes]]
            new = new[num_bytes:]
        return replace(result, observations=b"".join(parts))

    def keep(self, job: CompileJob, result: CompileResult) -> None:
        """Add a compile to its module's trees; one with continuous answers is not kept.

        Raises:
            ReplayMismatch: it contradicts an earlier one; names the module and the question.
        """
        if not job.sha256 or not job.record or job.with_default or job.count_done:
            return
        header = result.header
        if header is None or header.advice is None:
            return
        if not is_discrete(header.advice):
            self._can_keep = False
            return
        self.store.insert(job.sha256, result, job.known)


def _without_illegal_end(header: Header, tree: ResponseTree, walk: Walk, guard: Guard) -> Walk:
    """Leave the last answer to the session if its guard would change it.

    It is the only one that can be illegal: those before it are answers of compiles, as the compiler got them.
    """
    if walk.leaf is not None or not len(walk.nodes):
        return walk
    assert header.advice is not None
    advice = walk.answers[-1].astype(header.advice.dtype).tobytes()
    if guard.answer(tree.observations[walk.nodes[-1]].tobytes(), advice) == advice:
        return walk
    return Walk(walk.nodes[:-1], walk.answers[:-1], None)


def is_discrete(advice: TensorSpec) -> bool:
    """Whether answers can repeat at all, so that a tree of them is worth keeping; a priority in float32 hardly does."""
    return advice.num_elements == 1 and advice.dtype.kind in "iu"
