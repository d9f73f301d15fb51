"""Questions of a compile that are known in advance, and where the compile stands among them.

Known are the first questions of each context, in the order in which the compiler visits them. Their answers are sent
before the questions come, up to the first context of which only a beginning is known: what follows that beginning is
decided when it is asked, so the answers for the next context have to wait until the compiler has left it.
"""

import zlib
from dataclasses import dataclass

from mlgo.errors import ReplayMismatch


@dataclass(frozen=True)
class KnownContext:
    """First questions of one context.

    Attributes:
        name: of the context.
        checks: CRC-32 of each observation as the advisor would get it.
        answers: raw answers, concatenated.
        is_whole: nothing more is asked in this context.
    """

    name: str
    checks: tuple[int, ...]
    answers: bytes
    is_whole: bool = False


@dataclass(frozen=True)
class AnswerPrefix:
    """Questions that are known because earlier compiles gave the same answers.

    Attributes:
        contexts: all contexts of the module, in the compiler's order; none when nothing is known.
    """

    contexts: tuple[KnownContext, ...] = ()

    @property
    def num_questions(self) -> int:
        """Known questions of all contexts."""
        return sum(len(one.checks) for one in self.contexts)


class KnownQuestions:
    """Compares the questions of one compile with the known ones.

    Attributes:
        unsent: answers that can be sent ahead.
        num_awaited: questions that such answers are meant for and that have not come yet.

    Args:
        path: what is known.
    """

    def __init__(self, path: AnswerPrefix) -> None:
        self.unsent, self.num_awaited = b"", 0
        self._contexts = path.contexts
        self._place = -1
        self._num_released = 0
        self._checks: list[int] = []  # of the questions that are still due in this context, the next one last
        self._is_whole = False
        self._release()

    def enter(self, name: str) -> bytes:
        """The compiler begins a context, or resumes it; return the known answers that belong to it."""
        if not self._contexts or (self._place >= 0 and name == self._contexts[self._place].name):
            return b""
        self._check_all_came()
        self._place += 1
        due = self._contexts[self._place].name if self._place < len(self._contexts) else None
        if name != due:
            raise ReplayMismatch(f"context {self._place} is {name!r}, not {'the end' if due is None else repr(due)}")
        if self._place == self._num_released:
            self._release()
        context = self._contexts[self._place]
        self._checks, self._is_whole = list(context.checks[::-1]), context.is_whole
        return context.answers

    def covers(self, payload: bytes) -> bool:
        """Whether a question is answered in advance."""
        if not self._checks:
            if self._is_whole:
                raise ReplayMismatch(f"a question more than the {self._num_known()} known ones{self._where()}")
            return False
        if zlib.crc32(payload) != self._checks.pop():
            position = self._num_known() - len(self._checks) - 1
            raise ReplayMismatch(f"question {position}{self._where()} is not the known one")
        self.num_awaited -= 1
        return True

    def end(self) -> None:
        """The compile has ended."""
        self._check_all_came()
        if self._place + 1 < len(self._contexts):
            raise ReplayMismatch(f"only {self._place + 1} of {len(self._contexts)} contexts with known questions")

    def _release(self) -> None:
        """Hand out the answers of contexts that follow each other, up to one of which only a beginning is known."""
        answers = [self.unsent]
        while self._num_released < len(self._contexts):
            context = self._contexts[self._num_released]
            self._num_released += 1
            self.num_awaited += len(context.checks)
            answers.append(context.answers)
            if not context.is_whole:
                break
        self.unsent = b"".join(answers)

    def _check_all_came(self) -> None:
        if self._checks:
            known = self._num_known()
            raise ReplayMismatch(f"only {known - len(self._checks)} of {known} known questions{self._where()}")

    def _num_known(self) -> int:
        return len(self._contexts[self._place].checks)

    def _where(self) -> str:
        name = self._contexts[self._place].name
        return f" of {name}" if name else ""
