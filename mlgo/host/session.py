"""One compile: plain, or under advice over the interactive channel."""

import errno
import hashlib
import os
import select
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo.base.config import CompileConfig
from mlgo.base.files import hash64, write_bytes
from mlgo.base.scratch import scratch_directory
from mlgo.errors import (
    ChannelTimeout,
    CompileError,
    CompilerExit,
    CompilerMemory,
    CompileTimeout,
    ObjectError,
    PolicyError,
    ProtocolError,
    RemarkError,
    ToolchainError,
    TooManyQuestions,
)
from mlgo.host.channel import Channel
from mlgo.host.known import AnswerPrefix, KnownContext, KnownQuestions
from mlgo.host.log import Context, Header, LogParser, RawObservation
from mlgo.host.module_file import generation_flags
from mlgo.host.process import Child, without_folders
from mlgo.host.program import ProgramRunner
from mlgo.host.tasks.ir2vec import IR2VecVocabulary
from mlgo.host.tasks.task import Advisor, Guard, Remark, Responder, Task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.elf import ELF
from mlgo.objects.functions import bytes_by_function
from mlgo.objects.measures import Compiled, Scores, known_score, read_scores
from mlgo.objects.remarks import CALL_OPTIONS, REMARK_OPTIONS, SpillCosts, read_calls, read_spill_costs


@dataclass(frozen=True)
class CallAttribution:
    """Which functions a compile's decisions were about, and what became of each function of the module.

    Functions are numbered by their names, in alphabetical order.

    Attributes:
        names: uint64 [num_functions], hash of each function's symbol.
        sizes: float32 [num_functions], bytes of code and unwind entry, see `bytes_by_function`, by shares if those are
            known; -1 where the object does not have the function.
        callers: int32 [num_questions], number of the function that has the call.
        callees: int32 [num_questions], number of the function that is called.
    """

    names: np.ndarray
    sizes: np.ndarray
    callers: np.ndarray
    callees: np.ndarray


@dataclass(frozen=True)
class Questions:
    """Questions of a compile as arrays.

    Attributes:
        header: names and types of the features.
        observations: uint8 [num_recorded, payload_bytes]; all questions, or those after the first known ones.
        answers: [num_questions], of the advice's dtype.
    """

    header: Header
    observations: np.ndarray
    answers: np.ndarray


@dataclass(frozen=True)
class CompileResult:
    """What one compile gave.

    Attributes:
        scores: what it came to, by measure.
        object_sha256: hash of the object file.
        seconds: wall time from start to exit of the compiler.
        truncated: the compiler stopped asking because the module had grown too much.
        num_remarks: how often the compiler reported the remark that was asked for.
        header: what the compiler sent; None for a plain compile.
        contexts: name and number of questions of each context line, in order.
        answers: raw answers, concatenated.
        observations: raw observations after the known path, concatenated; empty unless they were recorded.
        num_repaired_answers: illegal answers that were replaced, see `llvm.Guard`.
        num_repaired_observations: observations with values that are no numbers.
        spills: what register allocation cost each function; None where the task's decisions come before it.
        credit: functions of the decisions, and their sizes; None unless it was asked for, and the object is ELF.
    """

    scores: Scores
    object_sha256: str
    seconds: float
    truncated: bool = False
    num_remarks: int = 0
    header: Header | None = None
    contexts: tuple[tuple[str, int], ...] = ()
    answers: bytes = b""
    observations: bytes = b""
    num_repaired_answers: int = 0
    num_repaired_observations: int = 0
    spills: tuple[SpillCosts, ...] | None = None
    credit: CallAttribution | None = None

    def score(self, measure: str) -> float:
        """What it came to by one measure.

        Raises:
            ValueError: such compiles do not have it.
        """
        return known_score(self.scores, measure)

    @property
    def num_questions(self) -> int:
        """Questions asked in all contexts."""
        return sum(count for _, count in self.contexts)

    def questions(self) -> Questions:
        """Decode what was asked and answered; the compile had a channel, and its observations were recorded."""
        assert self.header is not None
        assert self.header.advice is not None
        observations = np.frombuffer(self.observations, np.uint8).reshape(-1, self.header.payload_bytes)
        return Questions(self.header, observations, np.frombuffer(self.answers, self.header.advice.dtype))

    def visits(self) -> list[tuple[str, int]]:
        """Contexts in order with their numbers of questions, those that were resumed at once counted as one."""
        merged: list[tuple[str, int]] = []
        for name, count in self.contexts:
            before = merged.pop()[1] if merged and merged[-1][0] == name else 0
            merged.append((name, before + count))
        return merged

    def answer_prefix(self) -> AnswerPrefix:
        """What a compile with the same answers will ask; the result must be recorded, from the first question on."""
        asked, contexts, first = self.questions(), [], 0
        for name, count in self.visits():
            here = slice(first, first + count)
            checks = tuple(map(zlib.crc32, asked.observations[here]))
            contexts.append(KnownContext(name, checks, asked.answers[here].tobytes(), is_whole=True))
            first += count
        return AnswerPrefix(tuple(contexts))


def compile_plain(
    toolchain: Toolchain,
    module: Path,
    settings: CompileConfig,
    *,
    task: Task | None = None,
    remark: Remark | None = None,
    object_path: Path | None = None,
    num_copies: Mapping[bytes, int] | None = None,
    runner: ProgramRunner | None = None,
) -> CompileResult:
    """Compile a module with the compiler's own heuristics, no channel.

    Args:
        toolchain: compiler to use.
        module: bitcode or textual IR.
        settings: level and deadlines.
        task: decision problem that the module was made for; None compiles it as it is, from unoptimized IR.
        remark: reports to count.
        object_path: where to keep the object file.
        num_copies: modules of the project that carry a COMDAT group, by signature; see `comdat.shared_text`.
        runner: runs the program that the module may be.

    Raises:
        CompileError: the compile failed or took too long, or the program is not right.
    """
    with scratch_directory() as directory:
        output = directory / "module.o"
        costs = _costs_file(task, directory)
        start = time.monotonic()
        told = _remark_flags(REMARK_OPTIONS, costs)
        flags = [*(task.module_flags if task else ()), *told, *(remark.flags if remark else ())]
        marker = remark.marker if remark else b""
        with _start(toolchain, module, settings, output, flags, marker) as child:
            returncode = child.wait(start + settings.compile_timeout_s)
            seconds = time.monotonic() - start
            if returncode is None:
                raise CompileTimeout(f"no end within {settings.compile_timeout_s:g} s")
            _check_exit(returncode, child, settings)
        executed = runner.instructions_of(module, output) if runner else None
        return _measured(output, costs, object_path, num_copies, executed, seconds, num_remarks=child.num_matches)


def compile_under_advice(
    toolchain: Toolchain,
    task: Task,
    module: Path,
    advisor: Advisor,
    settings: CompileConfig,
    *,
    with_heuristic_feature: bool = False,
    record: bool = False,
    remark: Remark | None = None,
    known: AnswerPrefix | None = None,
    object_path: Path | None = None,
    num_copies: Mapping[bytes, int] | None = None,
    entered: Callable[[str], None] = lambda context: None,
    with_credit: bool = False,
    runner: ProgramRunner | None = None,
) -> CompileResult:
    """Compile a module while an advisor makes the task's decisions.

    Args:
        toolchain: compiler to use.
        task: decision problem to take over.
        module: bitcode or textual IR.
        advisor: answers the questions.
        settings: level, size stop and deadlines.
        with_heuristic_feature: ask for the heuristic's decision as an additional feature, whatever the settings say.
        record: keep the raw observations in the result.
        remark: reports to count, instead of watching for an early stop.
        known: first questions, answered without waiting for them.
        object_path: where to keep the object file.
        num_copies: modules of the project that carry a COMDAT group, by signature; see `comdat.shared_text`.
        entered: called with the name of each context, before its questions.
        with_credit: tell the functions of the decisions, and their sizes; for inlining, and where the object is ELF.
            The code stays the same.
        runner: runs the program that the module may be.

    Raises:
        CompileError: the compile failed, took too long, or broke the protocol, or the program is not right.
    """
    vocabulary = task.ir2vec(settings.ir2vec)
    task.check_told(settings.tell_heuristic)
    with_heuristic_feature = with_heuristic_feature or settings.tell_heuristic
    with scratch_directory() as directory, Channel(directory) as channel:
        output = directory / "module.o"
        costs, calls = _costs_file(task, directory), directory / "calls.yaml" if with_credit else None
        watched = remark or (task.growth_stop.remark if task.growth_stop else _NO_REMARK)
        words = _vocabulary_file(vocabulary, directory)
        asking = task.flags(
            channel.base, settings.size_stop_factor, with_heuristic_feature=with_heuristic_feature, vocabulary=words
        )
        told = [*_remark_flags(REMARK_OPTIONS, costs), *_remark_flags(CALL_OPTIONS, calls)]
        flags = [*asking, *told, *watched.flags]
        start = time.monotonic()
        with _start(toolchain, module, settings, output, flags, watched.marker) as child:
            path = known or AnswerPrefix()
            talk = _Conversation(channel, child, task, vocabulary, advisor, settings, start, record, path, entered)
            returncode = talk.run()
            seconds = time.monotonic() - start
            _check_exit(returncode, child, settings)
        if talk.header is None and not task.in_code_generation:  # there, nothing to allocate means no channel
            raise ProtocolError("the compiler ended without opening the channel")
        talk.known.end()
        if talk.parser.pending_bytes:
            raise ProtocolError("the compiler ended in the middle of a message")
        return _measured(
            output,
            costs,
            object_path,
            num_copies,
            runner.instructions_of(module, output) if runner else None,
            seconds,
            calls,
            truncated=remark is None and child.num_matches > 0,
            num_remarks=child.num_matches,
            header=talk.header,
            contexts=tuple((name, count) for name, count in talk.contexts),
            answers=b"".join(talk.answers),
            observations=b"".join(talk.observations),
            num_repaired_answers=talk.guard.num_repaired_answers if talk.guard else 0,
            num_repaired_observations=talk.guard.num_repaired_observations if talk.guard else 0,
        )


_NO_MEMORY = ("LLVM ERROR: out of memory", "bad_alloc", "Cannot allocate memory")
_NO_REMARK = Remark((), b"")
_KNOWN_QUESTION_S = 10e-6
"""While questions are answered in advance, the compiler need not be interrupted for each, only before its pipe is full.
This is less than LLVM takes for a question, so the first unknown one is not kept waiting."""
_PIPE_BYTES = 1 << 16
_TALK_PATIENCE_MS = 20
_QUESTIONS_PER_DRAIN = 64
"""Between two questions only the channel is watched: the compiler writes a remark per refused call, piece by piece,
and each piece would wake this process. 64 remarks are far less than its stderr pipe holds."""


class _Conversation:
    """Questions and answers of one compile, until its process ends."""

    def __init__(
        self,
        channel: Channel,
        child: Child,
        task: Task,
        vocabulary: IR2VecVocabulary | None,
        advisor: Advisor,
        settings: CompileConfig,
        start: float,
        record: bool,
        known: AnswerPrefix,
        entered: Callable[[str], None],
    ) -> None:
        self.header: Header | None = None
        self.parser = LogParser()
        self.guard: Guard | None = None
        self.contexts: list[list] = []
        self.known = KnownQuestions(known)
        self.num_answered = 0
        self.answers: list[bytes] = []
        self.observations: list[bytes] = []
        self._channel, self._child, self._advisor, self._record = channel, child, advisor, record
        self._entered = entered
        self._task, self._vocabulary, self._max_questions = task, vocabulary, settings.max_questions
        self._respond: Responder = _no_header
        self._advice_bytes, self._pipe_holds = 0, 1
        self._answer_timeout_s = settings.answer_timeout_s
        self._compile_timeout_s = settings.compile_timeout_s
        self._end = start + settings.compile_timeout_s
        self._heard = start

    def run(self) -> int:
        """Talk until the process ends; return its exit code."""
        channel, child, poller = self._channel, self._child, select.poll()
        for descriptor in (channel.out_fd, child.stderr_fd, child.pidfd):
            poller.register(descriptor, select.POLLIN)
        while True:
            self._answer_ahead()
            if self.known.num_awaited:
                time.sleep(min(self.known.num_awaited, self._pipe_holds) * _KNOWN_QUESTION_S)
            ready = dict(poller.poll(self._patience_ms()))
            if not ready or time.monotonic() >= self._end:
                self._give_up()
            if child.stderr_fd in ready and not child.drain_stderr():
                poller.unregister(child.stderr_fd)
            if child.pidfd in ready:  # what it wrote before it ended is still in the pipe
                while self._receive():
                    pass
                return child.reap()
            if channel.out_fd in ready:
                if not self._receive():
                    poller.unregister(channel.out_fd)
                elif not self.known.num_awaited:
                    self._talk()

    def _answer_ahead(self) -> None:
        if self.known.unsent:
            self.known.unsent = self._channel.answer_ahead(self.known.unsent)

    def _talk(self) -> None:
        """Answer questions as long as they keep coming and are not known."""
        poller = select.poll()
        poller.register(self._channel.out_fd, select.POLLIN)
        drain_at = self.num_answered + _QUESTIONS_PER_DRAIN
        while poller.poll(_TALK_PATIENCE_MS) and self._receive() and self._heard < self._end:
            if self.num_answered >= drain_at:
                self._child.drain_stderr()
                drain_at = self.num_answered + _QUESTIONS_PER_DRAIN
            if self.known.num_awaited:
                return

    def _receive(self) -> bool:
        """Handle what is in the pipe; False when there is nothing (more) to read."""
        data = self._channel.read()
        if not data:
            return False
        for event in self.parser.feed(data):
            if type(event) is RawObservation:
                self._answer(event.payload)
            elif type(event) is Context:
                self._enter(event.name)
            elif type(event) is Header:
                if event.advice is None:
                    raise ProtocolError("the header announces no advice: this is a training log, not a channel")
                self.header = header = self._vocabulary.split(event) if self._vocabulary else event
                self._advice_bytes = event.advice.num_bytes
                self._pipe_holds = max(1, _PIPE_BYTES // header.payload_bytes)
                self.guard = self._task.guard(header) if self._task.guard else None
                self._respond = self._advisor.respond_to(header)
        self._answer_ahead()  # of a context that has just begun
        self._heard = time.monotonic()  # after the answers: the advisor's time is not the compiler's
        return True

    def _answer(self, payload: bytes) -> None:
        number = self.num_answered
        if number >= self._max_questions:
            raise TooManyQuestions(f"more than compile.max_questions ({self._max_questions}) questions")
        if self.guard is not None:
            payload = self.guard.observation(payload)
        if not self.contexts:
            self._enter("")
        if not self.known.covers(payload):
            advice = self._respond(payload)
            if len(advice) != self._advice_bytes:
                raise PolicyError(f"an answer of {len(advice)} bytes where {self._advice_bytes} are due")
            if self.guard is not None:
                advice = self.guard.answer(payload, advice)
            self._channel.answer(advice)
            self.answers.append(advice)
            if self._record:
                self.observations.append(payload)
        self.num_answered = number + 1
        self.contexts[-1][1] += 1

    def _enter(self, context: str) -> None:
        self._entered(context)
        self.answers.append(self.known.enter(context))
        self.contexts.append([context, 0])

    def _patience_ms(self) -> float:
        left = min(self._heard + self._answer_timeout_s, self._end) - time.monotonic()
        return max(left, 0.0) * 1000

    def _give_up(self) -> None:
        if time.monotonic() >= self._end:
            raise CompileTimeout(f"no end within {self._compile_timeout_s:g} s, after {self.num_answered} answers")
        raise ChannelTimeout(f"silent for {self._answer_timeout_s:g} s, after {self.num_answered} answers")


def _no_header(payload: bytes) -> bytes:
    raise ProtocolError("a question before the header")


def _start(
    toolchain: Toolchain, module: Path, settings: CompileConfig, output: Path, flags: Sequence[str], watch_for: bytes
) -> Child:
    if module.exists() and not module.stat().st_size:  # clang takes an empty file for an empty module
        raise CompilerExit(f"error: {module.name} is empty")
    files = ("-x", "ir", str(module), "-c", "-o", str(output))
    return Child(
        [*toolchain.back_end, settings.optimization, *generation_flags(module, output.parent), *flags, *files],
        watch_for=watch_for,
        max_memory_bytes=int(settings.max_memory_gb * 1e9),
    )


def _check_exit(returncode: int, child: Child, settings: CompileConfig) -> None:
    if returncode != 0:
        how = f"signal {-returncode}" if returncode < 0 else f"status {returncode}"
        lines = [line for line in child.stderr_tail.splitlines() if not line.startswith("remark:")]
        if any("No space left on device" in line for line in lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if any(sign in line for line in lines for sign in _NO_MEMORY):
            raise CompilerMemory(f"the compiler needs more than compile.max_memory_gb ({settings.max_memory_gb:g})")
        # After a crash the rest is a stack dump, which differs from run to run.
        crashed = returncode < 0 or returncode >= 128
        errors = [line for line in lines if "error:" in line] or ([] if crashed else lines[-3:])
        raise CompilerExit(without_folders(f"the compiler ended with {how}: {' | '.join(errors[:3])[:500]}"))


def _vocabulary_file(vocabulary: IR2VecVocabulary | None, directory: Path) -> Path | None:
    if vocabulary is None:
        return None
    (path := directory / "ir2vec.json").write_bytes(vocabulary.content)
    return path


def _costs_file(task: Task | None, directory: Path) -> Path | None:
    return directory / "costs.yaml" if task is not None and task.in_code_generation else None


def _remark_flags(options: Sequence[str], path: Path | None) -> tuple[str, ...]:
    """What makes the compiler write a stream of remarks to a file; nothing without one."""
    return () if path is None else (*options, f"-foptimization-record-file={path}")


def _read_credit(
    calls: Path, data: bytes, num_questions: int, num_copies: Mapping[bytes, int] | None
) -> CallAttribution:
    named = read_calls(calls.read_bytes() if calls.exists() else b"", num_questions)
    sizes = bytes_by_function(data, num_copies)
    functions = sorted({*sizes, *(name for call in named for name in call)})
    numbers = {name: number for number, name in enumerate(functions)}
    callers, callees = np.array([[numbers[name] for name in call] for call in named], np.int32).reshape(-1, 2).T
    return CallAttribution(
        np.array([hash64(name) for name in functions], np.uint64),
        np.array([sizes.get(name, -1.0) for name in functions], np.float32),
        callers,
        callees,
    )


def _read_costs(costs: Path | None) -> tuple[SpillCosts, ...] | None:
    if costs is None:
        return None
    try:
        return tuple(read_spill_costs(costs.read_bytes()))
    except FileNotFoundError:
        raise RemarkError("the compiler ended well but wrote no remarks, from which costs are read") from None


def _measured(
    output: Path,
    costs: Path | None,
    object_path: Path | None,
    num_copies: Mapping[bytes, int] | None,
    instructions: int | None,
    seconds: float,
    calls: Path | None = None,
    **talk: object,
) -> CompileResult:
    try:
        data = output.read_bytes()
    except FileNotFoundError:
        raise ObjectError("the compiler ended well but wrote no object file") from None
    compiled = Compiled(data, _read_costs(costs), num_copies, instructions)
    scores = read_scores(compiled)
    if object_path is not None:
        write_bytes(object_path, data)
    digest = hashlib.sha256(data).hexdigest()
    result = CompileResult(scores, digest, seconds, spills=compiled.functions, **talk)  # type: ignore[arg-type]
    if calls is None or not data.startswith(ELF):  # names of functions are read of ELF alone
        return result
    return replace(result, credit=_read_credit(calls, data, result.num_questions, num_copies))


class _Zero:
    """Answers every question with zero bytes."""

    def respond_to(self, header: Header) -> Responder:
        assert header.advice is not None
        answer = bytes(header.advice.num_bytes)
        return lambda payload: answer


def probe_channel(toolchain: Toolchain, task: Task, settings: CompileConfig) -> Header:
    """Compile the task's probe under advice and return what the compiler says it will send."""
    with scratch_directory() as folder:
        module = folder / "probe.ll"
        module.write_text(task.probe)
        try:
            with_heuristic_feature = task.default is not None
            result = compile_under_advice(
                toolchain, task, module, _Zero(), settings, with_heuristic_feature=with_heuristic_feature
            )
        except CompileError as error:
            raise ToolchainError(
                f"{toolchain.name} does not offer the interactive channel of task {task.name} ({error}); "
                "set toolchain: auto, or name a released clang"
            ) from error
    if not result.num_questions or result.header is None:
        raise ToolchainError(f"{toolchain.name} opens the channel of task {task.name} but asks nothing")
    return result.header
