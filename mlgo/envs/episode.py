"""A compile that waits for its answers one by one: an advisor turned inside out."""

import queue
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.base.config import CompileConfig
from mlgo.errors import CompileError
from mlgo.host.log import Header
from mlgo.host.session import CompileResult, compile_under_advice
from mlgo.host.tasks.task import Responder, Task
from mlgo.host.toolchain import Toolchain

_NO_DEADLINE_S = 1e9
"""For the whole compile, since it also waits for an agent that may think as long as it likes."""


@dataclass(frozen=True)
class Question:
    """What the compiler asks.

    Attributes:
        context: what it is about, a function or a module, as the compiler names it.
        number: of the question in the compile, from 0.
        payload: the raw observation, repaired by the task's guard.
        header: what the observation consists of.
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

    Attributes:
        compiled: always.

    Args:
        toolchain: compiler to use.
        task: decision problem to take over.
        module: bitcode or textual IR.
        settings: level, size stop and deadlines.
        **options: ``with_default``, ``record`` and ``known`` of `compile_under_advice`; known questions are not asked.
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
            ReplayMismatch: the known questions were not the ones that came.
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
