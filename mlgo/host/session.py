"""One compile: plain, or under advice over the interactive channel."""

import errno
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from mlgo import errors
from mlgo.base.config import CompileConfig
from mlgo.base.files import hash64, read_input, write_bytes
from mlgo.base.scratch import scratch_directory
from mlgo.host.conversation import AnswerPrefix, Channel, Conversation, KnownContext
from mlgo.host.linker import KEEP_SECTIONS, MERGED, link_file, section_sizes
from mlgo.host.log import Header
from mlgo.host.module_file import generation_flags, generation_of
from mlgo.host.process import Child, check_memory, without_folders
from mlgo.host.program import ProgramRunner
from mlgo.host.tasks.task import Advisor, ConstantAdvisor, Remark, Task
from mlgo.host.toolchain import Toolchain, find_linker
from mlgo.objects.elf import ELF
from mlgo.objects.measures import Compiled, Scores, known_score, read_scores
from mlgo.objects.remarks import CALL_OPTIONS, SpillCosts, cost_options, read_calls, read_spill_costs
from mlgo.objects.symbols import REFERENCES, bytes_by_function, linked_bytes_by_function


class CallAttribution(NamedTuple):
    """Which functions a compile's decisions were about, and what became of each function of the module.

    Functions are numbered by their names, in alphabetical order.
    """

    names: np.ndarray  # uint64 [num_functions], hash of each function's symbol
    # float32 [num_functions], bytes in the linked file that the module is, see `linked_bytes_by_function`; of other
    # modules those of code and unwind entry, see `bytes_by_function`, by shares if those are known. -1 where there is
    # no such function.
    sizes: np.ndarray
    callers: np.ndarray  # int32 [num_questions], number of the function that has the call
    callees: np.ndarray  # int32 [num_questions], number of the function that is called


class Questions(NamedTuple):
    """Questions of a compile as arrays."""

    header: Header  # names and types of the features
    observations: np.ndarray  # uint8 [num_recorded, payload_bytes]; all questions, or those after the first known ones
    answers: np.ndarray  # [num_questions], of the advice's dtype


@dataclass(frozen=True)
class CompileResult:
    """What one compile gave."""

    scores: Scores  # what it came to, by measure
    object_sha256: str  # hash of the object file
    seconds: float  # wall time from start to exit of the compiler
    truncated: bool = False  # the compiler stopped asking because the module had grown too much
    num_remarks: int = 0  # how often the compiler reported the remark that was asked for
    header: Header | None = None  # what the compiler sent; None for a plain compile
    contexts: tuple[tuple[str, int], ...] = ()  # name and number of questions of each context line, in order
    answers: bytes = b""  # raw answers, concatenated
    observations: bytes = b""  # raw observations after the known path, concatenated; empty unless they were recorded
    num_repaired_answers: int = 0  # illegal answers that were replaced, see `llvm.Guard`
    num_repaired_observations: int = 0  # observations with values that are no numbers
    # What register allocation cost each function; None where the task's decisions come before it.
    spills: tuple[SpillCosts, ...] | None = None
    # Functions of the decisions, and their sizes; None unless it was asked for, and the object is ELF.
    credit: CallAttribution | None = None

    def score(self, measure: str) -> float:
        """What it came to by one measure; ValueError where such compiles do not have it."""
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
        runs = groupby(self.contexts, lambda context: context[0])
        return [(name, sum(count for _, count in run)) for name, run in runs]

    def answer_prefix(self) -> AnswerPrefix:
        """What a compile with the same answers will ask; the result must be recorded, from the first question on."""
        asked, contexts, first = self.questions(), [], 0
        for name, count in self.visits():
            here = slice(first, first + count)
            checks = tuple(map(zlib.crc32, asked.observations[here]))
            contexts.append(KnownContext(name, checks, asked.answers[here].tobytes(), is_whole=True))
            first += count
        return AnswerPrefix(tuple(contexts))


class CompileOptions(TypedDict, total=False):
    """What may be asked of any compile, all of it optional."""

    remark: Remark | None  # reports to count; under advice instead of watching for an early stop
    object_path: Path | None  # where to keep the object file
    # Modules of the project that carry a COMDAT group, by signature; see `comdat.shared_text`.
    num_copies: Mapping[bytes, int] | None
    runner: ProgramRunner | None  # runs the program that the module may be


def compile_plain(
    toolchain: Toolchain,
    module: Path,
    settings: CompileConfig,
    *,
    task: Task | None = None,
    **options: Unpack[CompileOptions],
) -> CompileResult:
    """Compile a module, bitcode or textual IR, with the compiler's own heuristics and no channel.

    Without the ``task`` that the module was made for, it is compiled as it is, from unoptimized IR.

    Raises:
        CompileError: the compile failed or took too long, or the program is not right.
    """
    with scratch_directory() as directory:
        compiling = _Compilation(toolchain, task, module, settings, directory, options)
        start = time.monotonic()
        with compiling.start(task.module_flags if task else (), options.get("remark") or _NO_REMARK) as child:
            returncode = child.wait(start + settings.compile_timeout_s)
            seconds = time.monotonic() - start
            if returncode is None:
                raise errors.CompileTimeout(f"no end within {settings.compile_timeout_s:g} s")
            _check_exit(returncode, child, settings)
        return compiling.result(seconds, child.num_matches)


def compile_under_advice(
    toolchain: Toolchain,
    task: Task,
    module: Path,
    advisor: Advisor,
    settings: CompileConfig,
    *,
    with_heuristic_feature: bool = False,
    record: bool = False,
    known: AnswerPrefix | None = None,
    entered: Callable[[str], None] = lambda context: None,
    with_credit: bool = False,
    **options: Unpack[CompileOptions],
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
        known: first questions, answered without waiting for them.
        entered: called with the name of each context, before its questions.
        with_credit: report the functions of the decisions, and their sizes; for inlining, and where the object is ELF.
            The code stays the same.
        **options: see `CompileOptions`.

    Raises:
        CompileError: the compile failed, took too long, or broke the protocol, or the program is not right.
    """
    remark = options.get("remark")
    watched = remark or (task.growth_stop.remark if task.growth_stop else _NO_REMARK)
    talk = Conversation(task, advisor, settings, record, known or AnswerPrefix(), entered)
    task.check_told(settings.tell_heuristic)
    with scratch_directory() as directory, Channel(directory) as channel:
        calls = directory / "calls.yaml" if with_credit else None
        compiling = _Compilation(toolchain, task, module, settings, directory, options)
        flags = task.flags(
            channel.base,
            settings.size_stop_factor,
            with_heuristic_feature=with_heuristic_feature or settings.tell_heuristic,
            vocabulary=talk.vocabulary.write(directory) if talk.vocabulary else None,
        )
        start = time.monotonic()
        with compiling.start(flags, watched, calls) as child:
            returncode = talk.run(channel, child, start)
            seconds = time.monotonic() - start
            _check_exit(returncode, child, settings)
        result = replace(
            compiling.result(seconds, child.num_matches),
            truncated=remark is None and child.num_matches > 0,
            header=talk.header,
            contexts=tuple((name, count) for name, count in talk.contexts),
            answers=b"".join(talk.answers),
            observations=b"".join(talk.observations),
            num_repaired_answers=talk.guard.num_repaired_answers if talk.guard else 0,
            num_repaired_observations=talk.guard.num_repaired_observations if talk.guard else 0,
        )
        return result if calls is None else compiling.with_credit(result, calls)


_NO_REMARK = Remark((), b"")


@dataclass(frozen=True)
class _Compilation:
    """What a plain compile and one under advice share: the command, and what it comes to."""

    toolchain: Toolchain
    task: Task | None
    module: Path
    settings: CompileConfig
    directory: Path
    options: CompileOptions

    @property
    def output(self) -> Path:
        return self.directory / "module.o"

    @property
    def costs(self) -> Path | None:
        return self.directory / "costs.yaml" if self.task is not None and self.task.in_code_generation else None

    @cached_property
    def linked(self) -> bytes | None:
        """The linked file that the module is, once it is compiled; None for other modules."""
        link, settings = generation_of(self.module).link, self.settings
        if link is None:
            return None
        whole = [KEEP_SECTIONS] if KEEP_SECTIONS in link.options else []  # of a group, whatever the record says
        paths, options = {MERGED: self.output}, [*whole, *REFERENCES]
        return link_file(find_linker(), link, paths, settings.compile_timeout_s, settings.ships, options)

    def start(self, flags: Sequence[str], watched: Remark, calls: Path | None = None) -> Child:
        module, settings = self.module, self.settings
        if module.exists() and not module.stat().st_size:  # clang takes an empty file for an empty module
            raise errors.CompilerExit(f"error: {module.name} is empty")
        remarks: list[str] = []
        if self.costs:
            contents = read_input(module) if module.exists() else b""  # the compiler says that it is not there
            remarks += [*cost_options(contents), f"-foptimization-record-file={self.costs}"]
        if calls:
            remarks += [*CALL_OPTIONS, f"-foptimization-record-file={calls}"]
        how = [*self.toolchain.back_end, settings.optimization, *generation_flags(module, self.directory)]
        return Child(
            [*how, *flags, *remarks, *watched.flags, "-x", "ir", str(module), "-c", "-o", str(self.output)],
            watch_for=watched.marker,
            max_memory_bytes=int(settings.max_memory_gb * 1e9),
        )

    def result(self, seconds: float, num_remarks: int) -> CompileResult:
        """What the compiler has written, measured."""
        runner, num_copies = self.options.get("runner"), self.options.get("num_copies")
        instructions = runner.instructions_of(self.module, self.output) if runner else None
        try:
            data = self.output.read_bytes()
        except FileNotFoundError:
            raise errors.ObjectError("the compiler ended well but wrote no object file") from None
        spills = None
        if self.costs is not None:
            try:
                spills = tuple(read_spill_costs(self.costs.read_bytes()))
            except FileNotFoundError:
                raise errors.RemarkError(
                    "the compiler ended well but wrote no remarks, from which costs are read"
                ) from None
        linked = None if self.linked is None else section_sizes(self.linked)
        if linked is not None:
            linked["total"] = self.settings.ships.total(linked)
        scores = read_scores(Compiled(data, spills, num_copies, instructions, linked))
        if object_path := self.options.get("object_path"):
            write_bytes(object_path, data)
        return CompileResult(scores, hashlib.sha256(data).hexdigest(), seconds, num_remarks=num_remarks, spills=spills)

    def with_credit(self, result: CompileResult, calls: Path) -> CompileResult:
        """The same with functions of the decisions, where names of functions can be read, which are those of ELF."""
        data = self.output.read_bytes()
        if not data.startswith(ELF):
            return result
        named = read_calls(calls.read_bytes() if calls.exists() else b"", result.num_questions)
        if self.linked is None:
            sizes = bytes_by_function(data, self.options.get("num_copies"))
        else:
            sizes = linked_bytes_by_function(self.linked, unwind=self.settings.ships.unwind is not False)
        functions = sorted({*sizes, *(name for call in named for name in call)})
        numbers = {name: number for number, name in enumerate(functions)}
        callers, callees = np.array([[numbers[name] for name in call] for call in named], np.int32).reshape(-1, 2).T
        hashes = np.array([hash64(name) for name in functions], np.uint64)
        of_functions = np.array([sizes.get(name, -1.0) for name in functions], np.float32)
        return replace(result, credit=CallAttribution(hashes, of_functions, callers, callees))


def _check_exit(returncode: int, child: Child, settings: CompileConfig) -> None:
    if returncode != 0:
        how = f"signal {-returncode}" if returncode < 0 else f"status {returncode}"
        lines = [line for line in child.stderr_tail.splitlines() if not line.startswith("remark:")]
        if any("No space left on device" in line for line in lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        check_memory(lines, child.max_memory_bytes)
        # After a crash the rest is a stack dump, which differs from run to run.
        crashed = returncode < 0 or returncode >= 128
        said = [line for line in lines if "error:" in line] or ([] if crashed else lines[-3:])
        raise errors.CompilerExit(without_folders(f"the compiler ended with {how}: {' | '.join(said[:3])[:500]}"))


def probe_channel(toolchain: Toolchain, task: Task, settings: CompileConfig) -> Header:
    """Compile the task's probe under advice and return what the compiler says it will send."""
    with scratch_directory() as folder:
        module = folder / "probe.ll"
        module.write_text(task.probe)
        try:
            result = compile_under_advice(
                toolchain, task, module, ConstantAdvisor(0), settings, with_heuristic_feature=task.default is not None
            )
        except errors.CompileError as error:
            raise errors.ToolchainError(
                f"{toolchain.name} does not offer the interactive channel of task {task.name} ({error}); "
                "set toolchain: auto, or name a released clang"
            ) from error
    if not result.num_questions or result.header is None:
        raise errors.ToolchainError(f"{toolchain.name} opens the channel of task {task.name} but asks nothing")
    return result.header
