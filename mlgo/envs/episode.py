"""Gymnasium spaces of what a compiler sends and takes."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from mlgo.base.config import CompileConfig
from mlgo.base.types import TensorSpec
from mlgo.envs.modules import ModuleProblem
from mlgo.errors import CompileError, ReplayMismatch
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.log import Header
from mlgo.host.session import CompileResult, compile_under_advice
from mlgo.host.tasks.task import Responder, Task
from mlgo.host.toolchain import Toolchain
from mlgo.pool.response_tree import Walk
from mlgo.pool.tree_store import ReplayStore

Observation = dict[str, np.ndarray]
"""Features by name."""

Info = dict[str, Any]
"""What Gymnasium calls ``info`` and ``options``."""


def observation_space(features: tuple[TensorSpec, ...]) -> spaces.Dict:
    """A box for each feature, of the compiler's own type and shape; what it may send has no bounds but the type's."""

    def box(spec: TensorSpec) -> spaces.Box:
        bounds = None if spec.dtype.kind == "f" else np.iinfo(spec.dtype)
        low, high = (bounds.min, bounds.max) if bounds else (-np.inf, np.inf)
        return spaces.Box(low, high, spec.shape, spec.dtype.type)

    return spaces.Dict({spec.name: box(spec) for spec in features})


_NO_DEADLINE_S = 1e9
"""For the whole compile, since it also waits for an agent that may think as long as it likes."""


@dataclass(frozen=True)
class Question:
    """What the compiler asks.

    Attributes:
        context: what it is about, a function or a module, as the compiler names it.
        number: of the question in the compile, from 0.
        payload: the raw observation, repaired by the task's guard.
    """

    context: str
    number: int
    payload: bytes
    header: Header


Ending = CompileResult | CompileError
"""What a compile came to."""


class LiveCompile:
    """One compile in a thread of its own, which stands still at each question until it is answered.

    The deadline of the whole compile does not hold, that for a silent compiler does (``compile.answer_timeout_s``), and
    the number of questions is bounded, so a compile ends once it gets its answers.

    Args:
        **options: ``with_heuristic_feature``, ``record`` and ``known`` of `compile_under_advice`.
    """

    compiled = True

    def __init__(self, toolchain: Toolchain, task: Task, module: Path, settings: CompileConfig, **options: Any) -> None:
        settings = settings.model_copy(update={"compile_timeout_s": _NO_DEADLINE_S})
        known = options.get("known")
        self._context, self._num_asked = "", known.num_questions if known else 0
        self._events: queue.SimpleQueue[Question | Ending | BaseException] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        compiling = toolchain, task, module, self, settings
        self._thread = threading.Thread(target=self._compile, args=compiling, kwargs=options, daemon=True)
        self._thread.start()

    def ask(self) -> Question | Ending:
        """Wait for the next question, or for the end.

        Raises:
            OSError: the machine failed, not the compiler.
        """
        event = self._events.get()
        if isinstance(event, BaseException) and not isinstance(event, CompileError):
            raise event
        return event

    def answer(self, advice: bytes) -> None:
        """Answer the question that was asked last."""
        self._answers.put(advice)

    def close(self) -> None:
        """End the compile, wherever it is; nothing of it stays behind."""
        if self._thread.is_alive():
            self._answers.put(None)
            self._thread.join()

    def _compile(self, *compiling: Any, **options: Any) -> None:
        try:
            self._events.put(compile_under_advice(*compiling, entered=self._enter, **options))
        except _AbandonedError:
            pass
        except BaseException as error:  # whatever it is belongs to the agent's thread
            self._events.put(error)

    def _enter(self, context: str) -> None:
        self._context = context

    def respond_to(self, header: Header) -> Responder:
        """The advisor that the session asks; see `llvm.Advisor`."""

        def respond(payload: bytes) -> bytes:
            self._events.put(Question(self._context, self._num_asked, payload, header))
            self._num_asked += 1
            answer = self._answers.get()
            if answer is None:
                raise _AbandonedError
            return answer

        return respond


class _AbandonedError(Exception):
    """The agent does not want to know how the compile ends."""


class RecalledCompile:
    """Walks a module's trees with the agent's answers.

    At the first unknown question a compiler is started, which gets the answers so far in advance; once it has ended,
    what it has shown is added to the trees. An episode that is left adds nothing.

    The trees are those of training. They hold sizes of modules that are one context, and costs of functions where each
    is a context; sizes of the latter are not known, so with a size as objective the compiler runs at the end, though it
    asks nothing.

    Args:
        store: trees of the compiler and flags in use.
    """

    def __init__(
        self, store: ReplayStore, toolchain: Toolchain, task: Task, problem: ModuleProblem, settings: CompileConfig
    ) -> None:
        self._store, self._toolchain, self._task = store, toolchain, task
        self._problem, self._settings = problem, settings
        self._live: LiveCompile | None = None
        self._known: AnswerPrefix | None = None
        self._recalled, self._advice, self._num_repaired = self._recall(), b"", 0

    @property
    def compiled(self) -> bool:
        """Whether a compiler has been started."""
        return self._live is not None

    def ask(self) -> Question | Ending:
        """See `LiveCompile.ask`."""
        if self._live is None:
            if (known := next(self._recalled, None)) is not None:
                return known
            self._live = LiveCompile(
                self._toolchain,
                self._task,
                self._problem.bitcode,
                self._settings,
                with_heuristic_feature=False,  # the trees hold none, and the same compiles as those of training
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
