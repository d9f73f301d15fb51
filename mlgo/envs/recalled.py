"""A compile out of response trees: no compiler runs as long as the trees know what it would ask."""

from dataclasses import replace

import numpy as np

from mlgo.compiler.known import KnownPath
from mlgo.compiler.session import CompileResult
from mlgo.compiler.toolchain import Toolchain
from mlgo.core.config import CompileConfig
from mlgo.core.errors import ReplayMismatch
from mlgo.core.measures import get_measure
from mlgo.envs.episode import Ending, LiveCompile, Question, RecalledCosts
from mlgo.envs.modules import Problem
from mlgo.execution.trees import FunctionLeaf, Leaf, ReplayStore, Walk
from mlgo.execution.trees.tree import AnyLeaf
from mlgo.problems.llvm.task import Task
from mlgo.rollout.memory import recalled_result


class RecalledCompile:
    """Walks a module's trees with the agent's answers.

    At the first unknown question a compiler is started, which gets the answers so far in advance; once it has ended,
    what it has shown is added to the trees. An episode that is left adds nothing.

    The trees are those of training. They hold sizes of modules that are one context, and costs of functions where each
    is a context; sizes of the latter are not known, so with a size as objective the compiler runs at the end, though it
    asks nothing.

    Attributes:
        compiled: whether a compiler has been started.

    Args:
        store: trees of the compiler and flags in use.
        toolchain: compiler to use.
        task: decision problem.
        problem: module to compile.
        settings: level, size stop, deadlines and objective.

    Raises:
        ArtifactError: the module's trees are damaged.
    """

    def __init__(
        self, store: ReplayStore, toolchain: Toolchain, task: Task, problem: Problem, settings: CompileConfig
    ) -> None:
        self._store, self._toolchain, self._task = store, toolchain, task
        self._problem, self._settings = problem, settings
        self._live: LiveCompile | None = None
        self._known: KnownPath | None = None
        self._num_asked = self._num_repaired = 0
        self._loaded = store.load(problem.sha256)
        if self._loaded is not None:
            header, trees = self._loaded
            self._guard = task.guard(header) if task.guard else None
            self._nodes: list[list[int]] = [[] for _ in trees.by_context]
            self._answers: list[list[int]] = [[] for _ in trees.by_context]
            self._leaves: list[AnyLeaf] = []
            self._place: int | AnyLeaf | None = trees.by_context[0].beginning() if trees.by_context else None

    @property
    def compiled(self) -> bool:
        """Whether a compiler has been started."""
        return self._live is not None

    def ask(self) -> Question | Ending:
        """Wait for the next question, or for the end.

        Raises:
            OSError: the machine failed, not the compiler.
            ReplayMismatch: the compiler contradicts the trees.
            ArtifactError: the trees cannot be written.
        """
        if self._live is None:
            known = self._recall()
            if known is not None:
                return known
            self._live = self._compile()
        try:
            event = self._live.ask()
            if isinstance(event, CompileResult) and event.header is not None:  # None where there is nothing to decide
                self._store.insert(self._problem.sha256, event, self._known)
        except ReplayMismatch as error:
            raise ReplayMismatch(
                f"{self._problem.name}: {error}; delete {self._problem.sha256}.tree in the folder of trees"
            ) from error
        if isinstance(event, CompileResult):
            return replace(event, num_repaired_answers=event.num_repaired_answers + self._num_repaired)
        return event

    def answer(self, advice: bytes) -> None:
        """Answer the question that was asked last."""
        if self._live is not None:
            self._live.answer(advice)
            return
        assert self._loaded is not None
        assert isinstance(self._place, int)
        header, trees = self._loaded
        assert header.advice is not None
        number = len(self._leaves)
        tree = trees.by_context[number]
        if self._guard is not None:
            advice = self._guard.answer(tree.observations[self._place].tobytes(), advice)
            self._num_repaired = self._guard.num_repaired_answers
        answer = int(np.frombuffer(advice, header.advice.dtype)[0])
        self._nodes[number].append(self._place)
        self._answers[number].append(answer)
        self._num_asked += 1
        self._place = tree.following(self._place, answer)

    def close(self) -> None:
        """End the compile, wherever it is; nothing of it stays behind, and nothing is added to the trees."""
        if self._live is not None:
            self._live.close()

    def _recall(self) -> Question | Ending | None:
        """What the trees say comes next; None when they do not know."""
        if self._loaded is None:
            return None
        header, trees = self._loaded
        while len(self._leaves) < len(trees.by_context):
            number = len(self._leaves)
            if self._place is None:
                return None
            if isinstance(self._place, int):
                payload = trees.by_context[number].observations[self._place].tobytes()
                return Question(trees.contexts[number], self._num_asked, payload, header)
            self._leaves.append(self._place)
            following = trees.by_context[number + 1 : number + 2]
            self._place = following[0].beginning() if following else None
        return self._result()

    def _result(self) -> Ending | None:
        assert self._loaded is not None
        if len(self._leaves) == 1 and isinstance(self._leaves[0], Leaf):
            result = recalled_result(*self._loaded, self._walks()[0], self._leaves[0], record=False)
            return replace(result, num_repaired_answers=self._num_repaired)
        functions = [leaf for leaf in self._leaves if isinstance(leaf, FunctionLeaf)]
        if not get_measure(self._settings.objective).is_by_function or len(functions) < len(self._leaves):
            return None
        spills = tuple(costs for leaf in functions for costs in leaf.spills)
        return RecalledCosts(spills, self._num_asked, self._num_repaired)

    def _walks(self) -> list[Walk]:
        leaves = [*self._leaves, *[None] * (len(self._nodes) - len(self._leaves))]
        pairs = zip(self._nodes, self._answers, leaves, strict=True)
        return [Walk(np.array(nodes, np.int64), np.array(given, np.int64), leaf) for nodes, given, leaf in pairs]

    def _compile(self) -> LiveCompile:
        if self._loaded is not None:
            header, trees = self._loaded
            self._known = trees.path_of(header, self._walks())
        return LiveCompile(
            self._toolchain,
            self._task,
            self._problem.bitcode,
            self._settings,
            with_default=False,  # the trees hold none, and the same compiles as those of training
            record=True,
            known=self._known,
        )
