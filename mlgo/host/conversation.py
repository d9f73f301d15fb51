"""One compile's conversation with its advisor over LLVM's interactive channel.

The channel is a FIFO pair in a directory of its own, opened so that neither side can block the other: ``BASE.in``
carries answers, ``BASE.out`` observations. The compiler opens ``.in`` for reading, then ``.out`` for writing. This side
opens ``.in`` for reading and writing (so the compiler never meets an end of file there, on which it would spin for
ever) and ``.out`` non-blocking (so opening needs no compiler).

Known in advance are the first questions of each context, in the order in which the compiler visits them. Their answers
are sent before the questions come, up to the first context of which only a beginning is known: what follows that
beginning is decided when it is asked, so the answers for the next context have to wait until the compiler has left it.
"""

import os
import select
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlgo import errors
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import Closing
from mlgo.host.log import Context, Header, LogParser, RawObservation
from mlgo.host.process import Child
from mlgo.host.tasks.task import Advisor, Guard, Responder, Task

_READ_BYTES = 1 << 16


class Channel(Closing):
    """Host's end of one interactive channel: the compiler gets ``base``, and questions come on ``out_fd``."""

    def __init__(self, directory: Path) -> None:
        self.base = directory / "channel"
        self._in_path, self._out_path = Path(f"{self.base}.in"), Path(f"{self.base}.out")
        os.mkfifo(self._in_path, 0o600)
        os.mkfifo(self._out_path, 0o600)
        self._in_fd = os.open(self._in_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.out_fd = os.open(self._out_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def read(self) -> bytes | None:
        """Return what has arrived, ``b""`` at the compiler's end of file, ``None`` when nothing is there."""
        try:
            return os.read(self.out_fd, _READ_BYTES)
        except BlockingIOError:
            return None

    def answer(self, advice: bytes) -> None:
        if self.answer_ahead(advice):
            raise errors.ChannelError("the compiler does not read its answers")

    def answer_ahead(self, advice: bytes) -> bytes:
        """Send answers to questions that will come; return what the pipe has no room for yet."""
        try:
            return advice[os.write(self._in_fd, advice) :] if advice else advice
        except BlockingIOError:
            return advice

    def close(self) -> None:
        """Close both ends and remove the FIFOs; safe to call twice."""
        for fd in (self._in_fd, self.out_fd):
            if fd >= 0:
                os.close(fd)
        self._in_fd = self.out_fd = -1
        self._in_path.unlink(missing_ok=True)
        self._out_path.unlink(missing_ok=True)


@dataclass(frozen=True)
class KnownContext:
    """First questions of one context, all of them if ``is_whole``.

    ``checks`` are CRC-32 of the observations as the advisor would get them, ``answers`` raw ones, concatenated.
    """

    name: str
    checks: tuple[int, ...]
    answers: bytes
    is_whole: bool = False


@dataclass(frozen=True)
class AnswerPrefix:
    """Questions that are known because earlier compiles gave the same answers.

    All contexts of the module are there, in the compiler's order; none when nothing is known.
    """

    contexts: tuple[KnownContext, ...] = ()

    @property
    def num_questions(self) -> int:
        """Known questions of all contexts."""
        return sum(len(one.checks) for one in self.contexts)


class KnownQuestions:
    """Compares the questions of one compile with the known ones.

    Answers that can be sent ahead are ``unsent``; ``num_awaited`` questions that they are meant for have not come yet.
    """

    def __init__(self, path: AnswerPrefix) -> None:
        self.unsent, self.num_awaited = b"", 0
        self._contexts, self._num_begun, self._num_released = path.contexts, 0, 0
        self._context, self._num_asked = KnownContext("", (), b""), 0  # where the compiler is
        self._release()

    def enter(self, name: str) -> bytes:
        """The compiler begins a context, or resumes it; return the known answers that belong to it."""
        if not self._contexts or (self._num_begun and name == self._context.name):
            return b""
        self._check_all_came()
        place = self._num_begun
        due = self._contexts[place].name if place < len(self._contexts) else None
        if name != due:
            raise errors.ReplayMismatch(f"context {place} is {name!r}, not {'the end' if due is None else repr(due)}")
        if place == self._num_released:
            self._release()
        self._context, self._num_begun, self._num_asked = self._contexts[place], place + 1, 0
        return self._context.answers

    def covers(self, payload: bytes) -> bool:
        """Whether a question is answered in advance."""
        checks = self._context.checks
        if self._num_asked == len(checks):
            if self._context.is_whole:
                raise errors.ReplayMismatch(f"a question more than the {len(checks)} known ones{self._where()}")
            return False
        if zlib.crc32(payload) != checks[self._num_asked]:
            raise errors.ReplayMismatch(f"question {self._num_asked}{self._where()} is not the known one")
        self._num_asked += 1
        self.num_awaited -= 1
        return True

    def end(self) -> None:
        """The compile has ended."""
        self._check_all_came()
        if self._num_begun < len(self._contexts):
            raise errors.ReplayMismatch(
                f"only {self._num_begun} of {len(self._contexts)} contexts with known questions"
            )

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
        if self._num_asked < (num_known := len(self._context.checks)):
            raise errors.ReplayMismatch(f"only {self._num_asked} of {num_known} known questions{self._where()}")

    def _where(self) -> str:
        return f" of {self._context.name}" if self._context.name else ""


_KNOWN_QUESTION_S = 10e-6
"""While questions are answered in advance, the compiler need not be interrupted for each, only before its pipe is full.
This is less than LLVM takes for a question, so the first unknown one is not kept waiting."""
_PIPE_BYTES = 1 << 16
_TALK_PATIENCE_MS = 20
_QUESTIONS_PER_DRAIN = 64
"""Between two questions only the channel is watched: the compiler writes a remark per refused call, piece by piece,
and each piece would wake this process. 64 remarks are far less than its stderr pipe holds."""


class Conversation:
    """Questions and answers of one compile, until its process ends.

    Arguments are those of `session.compile_under_advice`; ``contexts`` are names and numbers of questions.
    """

    def __init__(
        self,
        task: Task,
        advisor: Advisor,
        settings: CompileConfig,
        record: bool,
        known: AnswerPrefix,
        entered: Callable[[str], None],
    ) -> None:
        self.header: Header | None = None
        self.guard: Guard | None = None
        self.contexts: list[list] = []
        self.answers: list[bytes] = []
        self.observations: list[bytes] = []
        self.vocabulary = task.ir2vec(settings.ir2vec)
        self._task, self._advisor, self._settings, self._record = task, advisor, settings, record
        self._entered, self._parser, self._known = entered, LogParser(), KnownQuestions(known)
        self._respond: Responder
        self._num_answered, self._max_questions = 0, settings.max_questions
        self._advice_bytes, self._pipe_holds = 0, 1

    def run(self, channel: Channel, child: Child, start: float) -> int:
        """Talk until the process ends, which began at ``start``; return its exit code.

        Raises:
            CompileError: time ran out, too much was asked, or the protocol was broken.
        """
        self._channel, self._child, self._heard = channel, child, start
        self._end = start + self._settings.compile_timeout_s
        poller = select.poll()
        for descriptor in (channel.out_fd, child.stderr_fd, child.pidfd):
            poller.register(descriptor, select.POLLIN)
        while True:
            self._known.unsent = self._channel.answer_ahead(self._known.unsent)
            if self._known.num_awaited:
                time.sleep(min(self._known.num_awaited, self._pipe_holds) * _KNOWN_QUESTION_S)
            left = min(self._heard + self._settings.answer_timeout_s, self._end) - time.monotonic()
            ready = dict(poller.poll(max(left, 0.0) * 1000))
            if not ready or time.monotonic() >= self._end:
                self._give_up()
            if child.stderr_fd in ready and not child.drain_stderr():
                poller.unregister(child.stderr_fd)
            if child.pidfd in ready:  # what it wrote before it ended is still in the pipe
                while self._receive():
                    pass
                if (returncode := child.reap()) == 0:
                    self._check_end()
                return returncode
            if channel.out_fd in ready:
                if not self._receive():
                    poller.unregister(channel.out_fd)
                elif not self._known.num_awaited:
                    self._talk()

    def _check_end(self) -> None:
        """See that a compile that ended well has said all."""
        if self.header is None and not self._task.in_code_generation:  # there, nothing to allocate means no channel
            raise errors.ProtocolError("the compiler ended without opening the channel")
        self._known.end()
        if self._parser.pending_bytes:
            raise errors.ProtocolError("the compiler ended in the middle of a message")

    def _talk(self) -> None:
        """Answer questions as long as they keep coming and are not known."""
        poller = select.poll()
        poller.register(self._channel.out_fd, select.POLLIN)
        drain_at = self._num_answered + _QUESTIONS_PER_DRAIN
        while poller.poll(_TALK_PATIENCE_MS) and self._receive() and self._heard < self._end:
            if self._num_answered >= drain_at:
                self._child.drain_stderr()
                drain_at = self._num_answered + _QUESTIONS_PER_DRAIN
            if self._known.num_awaited:
                return

    def _receive(self) -> bool:
        """Handle what is in the pipe; False when there is nothing (more) to read."""
        data = self._channel.read()
        if not data:
            return False
        for event in self._parser.feed(data):
            if type(event) is RawObservation:
                self._answer(event.payload)
            elif type(event) is Context:
                self._enter(event.name)
            elif type(event) is Header:
                self._begin(event)
        self._known.unsent = self._channel.answer_ahead(self._known.unsent)  # of a context that has just begun
        self._heard = time.monotonic()  # after the answers: the advisor's time is not the compiler's
        return True

    def _begin(self, sent: Header) -> None:
        if sent.advice is None:
            raise errors.ProtocolError("the header announces no advice: this is a training log, not a channel")
        self.header = header = self.vocabulary.split(sent) if self.vocabulary else sent
        self._advice_bytes = sent.advice.num_bytes
        self._pipe_holds = max(1, _PIPE_BYTES // header.payload_bytes)
        self.guard = self._task.guard(header) if self._task.guard else None
        self._respond = self._advisor.respond_to(header)

    def _answer(self, payload: bytes) -> None:
        if self._num_answered >= self._max_questions:
            raise errors.TooManyQuestions(f"more than compile.max_questions ({self._max_questions}) questions")
        if self.guard is not None:
            payload = self.guard.observation(payload)
        if not self.contexts:
            self._enter("")
        if not self._known.covers(payload):
            advice = self._respond(payload)
            if len(advice) != self._advice_bytes:
                raise errors.PolicyError(f"an answer of {len(advice)} bytes where {self._advice_bytes} are due")
            if self.guard is not None:
                advice = self.guard.answer(payload, advice)
            self._channel.answer(advice)
            self.answers.append(advice)
            if self._record:
                self.observations.append(payload)
        self._num_answered += 1
        self.contexts[-1][1] += 1

    def _enter(self, context: str) -> None:
        self._entered(context)
        self.answers.append(self._known.enter(context))
        self.contexts.append([context, 0])

    def _give_up(self) -> None:
        settings, answers = self._settings, f"after {self._num_answered} answers"
        if time.monotonic() >= self._end:
            raise errors.CompileTimeout(f"no end within {settings.compile_timeout_s:g} s, {answers}")
        raise errors.ChannelTimeout(f"silent for {settings.answer_timeout_s:g} s, {answers}")
