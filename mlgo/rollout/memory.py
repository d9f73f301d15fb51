"""Response trees in front of the compiler: what is known is not compiled again."""

from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.compiler.session import CompileResult
from mlgo.compiler.toolchain import Toolchain
from mlgo.core.config import CompileConfig
from mlgo.core.files import content_hash
from mlgo.core.measures import scores_of
from mlgo.core.measures.remarks import SpillCosts
from mlgo.core.types import TensorSpec
from mlgo.execution.trees import FunctionLeaf, Leaf, ModuleTrees, ReplayStore, ResponseTree, TreeKey, Walk
from mlgo.problems.llvm.task import Guard, PureAdvisor, Task, get_task
from mlgo.rollout.copies import Copies
from mlgo.rollout.jobs import CompileJob
from mlgo.wire.log import Header


def tree_key(toolchain: Toolchain, task: Task, settings: CompileConfig, copies: Copies | None = None) -> TreeKey:
    """Key of the trees that compiles of this kind belong to."""
    shares = [copies.sha256] if copies else []  # sizes by shares hold for these shares only
    options = [toolchain.name, *toolchain.back_end[1:], *task.flags(Path("BASE"), 1.0, with_default=False), *shares]
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
        result: the whole result, when nothing is left to do.
        spills: costs of all functions, when nothing else is wanted and they are known; there is no result then.
        observations: raw observations of the known questions of each context, if the job is to be recorded.
    """

    job: CompileJob
    result: CompileResult | None = None
    spills: tuple[SpillCosts, ...] | None = None
    observations: tuple[bytes, ...] = ()


class TreeMemory:
    """Finds compiles in the trees and adds new ones to them.

    Attributes:
        store: the trees.
        num_recalled: compiles that were found.
        num_compiled: compiles that had to be done.
        num_known_questions: their questions that were answered in advance.
        num_questions: all their questions.

    Args:
        store: trees of the compiler and flags in use.
        whole: whether `complete` gives all observations of a compile, also where the job did not ask for them.
    """

    def __init__(self, store: ReplayStore, *, whole: bool = False) -> None:
        self.store = store
        self.num_recalled = self.num_compiled = self.num_known_questions = self.num_questions = 0
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
        found = self._recalled(job, header, trees, walks)
        if found is not None:
            self.num_recalled += 1
            return found
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
        self.num_compiled += 1
        self.num_known_questions += job.known.num_questions if job.known is not None else 0
        self.num_questions += result.num_questions
        header = result.header
        if header is None or header.advice is None:
            return
        if not is_discrete(header.advice):
            self._can_keep = False
            return
        self.store.insert(job.sha256, result, job.known)

    def _recalled(self, job: CompileJob, header: Header, trees: ModuleTrees, walks: list[Walk]) -> Recollection | None:
        """What needs no compile: the module's result where it is one context, the sum of costs where that is enough."""
        leaves = [walk.leaf for walk in walks]
        if len(leaves) == 1 and isinstance(leaves[0], Leaf):
            return Recollection(job, recalled_result(header, trees, walks[0], leaves[0], job.record))
        functions = [leaf for leaf in leaves if isinstance(leaf, FunctionLeaf)]
        if job.costs_only and len(functions) == len(walks):
            return Recollection(job, spills=tuple(costs for leaf in functions for costs in leaf.spills))
        return None


def recalled_result(header: Header, trees: ModuleTrees, walk: Walk, leaf: Leaf, record: bool) -> CompileResult:
    """What a compile of a module that is one context gave, put together from its tree.

    Args:
        header: what the compiler sends.
        trees: the module's one tree.
        walk: the compile's way through it.
        leaf: where that ends.
        record: with the raw observations.
    """
    assert header.advice is not None
    answers = walk.answers.astype(header.advice.dtype).tobytes()
    return CompileResult(
        scores_of(leaf.scores),
        leaf.object_sha256,
        0.0,
        leaf.truncated,
        header=header,
        contexts=((trees.contexts[0], len(walk.nodes)),),
        answers=answers,
        observations=trees.by_context[0].observations[walk.nodes].tobytes() if record else b"",
    )


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
