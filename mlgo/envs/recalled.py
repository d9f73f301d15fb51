"""A compile out of response trees: no compiler runs as long as the trees know what it would ask."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mlgo.base.config import CompileConfig
from mlgo.envs.episode import Ending, LiveCompile, Question
from mlgo.envs.modules import Problem
from mlgo.errors import ReplayMismatch
from mlgo.host.known import KnownPath
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import Task
from mlgo.host.toolchain import Toolchain
from mlgo.pool.trees import ReplayStore, Walk


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
    """

    def __init__(
        self, store: ReplayStore, toolchain: Toolchain, task: Task, problem: Problem, settings: CompileConfig
    ) -> None:
        self._store, self._toolchain, self._task = store, toolchain, task
        self._problem, self._settings = problem, settings
        self._live: LiveCompile | None = None
        self._known: KnownPath | None = None
        self._recalled, self._advice, self._num_repaired = self._recall(), b"", 0

    @property
    def compiled(self) -> bool:
        """Whether a compiler has been started."""
        return self._live is not None

    def ask(self) -> Question | Ending:
        """Wait for the next question, or for the end.

        Raises:
            OSError: the machine failed, not the compiler.
            ReplayMismatch: the compiler contradicts the trees.
            ArtifactError: the trees are damaged or cannot be written.
        """
        if self._live is None:
            for known in self._recalled:
                return known
            self._live = LiveCompile(
                self._toolchain,
                self._task,
                self._problem.bitcode,
                self._settings,
                with_default=False,  # the trees hold none, and the same compiles as those of training
                record=True,
                known=self._known,
            )
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
        self._advice = advice

    def close(self) -> None:
        """End the compile, wherever it is; nothing of it stays behind, and nothing is added to the trees."""
        if self._live is not None:
            self._live.close()

    def _recall(self) -> Iterator[Question | Ending]:
        """What the trees know, question by question; stops where a compiler has to go on."""
        loaded = self._store.load(self._problem.sha256)
        if loaded is None:
            return
        header, trees = loaded
        assert header.advice is not None
        guard = self._task.guard(header) if self._task.guard else None
        walks: list[Walk] = []
        num_asked = 0
        for context, tree in zip(trees.contexts, trees.by_context, strict=True):
            nodes: list[int] = []
            answers: list[int] = []
            place = tree.beginning() if not walks or walks[-1].leaf is not None else None
            while isinstance(place, int):
                payload = tree.observations[place].tobytes()
                yield Question(context, num_asked, payload, header)
                advice = self._advice if guard is None else guard.answer(payload, self._advice)
                nodes.append(place)
                answers.append(int(np.frombuffer(advice, header.advice.dtype)[0]))
                num_asked += 1
                place = tree.following(place, answers[-1])
            walks.append(Walk(np.array(nodes, np.int64), np.array(answers, np.int64), place))
        self._num_repaired = guard.num_repaired_answers if guard is not None else 0
        result = trees.result_of(header, walks)
        if result is not None and result.scores[self._settings.objective] is not None:
            yield replace(result, num_repaired_answers=self._num_repaired)
        self._known = trees.path_of(header, walks)
