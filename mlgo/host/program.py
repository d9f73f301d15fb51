"""Modules that are whole programs: linked, run, and their instructions counted exactly by valgrind.

The program is static and its C library is musl, which ``zig cc`` builds from the sources in the ziglang wheel, once per
cache folder. So the same objects give the same file on every machine; with the machine's own C library each would run
another ``printf``, and glibc's ``memcpy`` is chosen by the processor. Objects for ``x86_64-linux-gnu`` link as they
are, as long as their sources declare what they use of the C library instead of including the headers of another one.

*Lackey* counts each instruction, load and store once, whatever its width; ``push`` and ``call`` store, ``pop`` and
``ret`` load, each repetition of a string instruction is an instruction. To *cachegrind* and *callgrind* an instruction
that changes a word in memory is only a read, and such instructions are what a spilled variable often becomes.
valgrind's optimizer must be off (``--vex-iropt-level=0``): it drops loads into registers that are overwritten unread.
Where instructions alone are wanted, cachegrind counts the same number some five times as fast
(``python -m benchmarks.counting``).

All of a run is counted, start-up and C library too (675 instructions). That code is the same in every build of a
program and gets the same work, so it cancels out of the difference between two builds, but for what the alignment of
copied data decides. Counts repeat exactly: a program has the same name, an empty environment and a folder of its own in
every run. Only the 16 random bytes that the kernel hands to each program differ, by which nothing is decided.

valgrind computes 80-bit numbers of the x87 unit in 64 bits, so the last printed digit of a fraction can differ.
Programs whose output is compared print whole numbers.
"""

import os
import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mlgo.base.files import write_atomically
from mlgo.base.scratch import scratch_directory
from mlgo.errors import LinkError, ObjectError, ProgramError, ProgramOutput, ProgramSize, ProgramTimeout, ToolchainError
from mlgo.host.linker import await_linker
from mlgo.host.module_file import RunnableProgram, generation_of
from mlgo.host.process import Child, without_folders
from mlgo.host.toolchain import ask_version, find_linker, zig_environment
from mlgo.objects.elf import global_symbols, read_sections, text_size

# -O2 is for the C library and the compiler's own routines, which are otherwise built to be debugged; it does not touch
# the objects.
_LINK_OPTIONS = ("-static", "-O2")
_OF_CXX = (b"_Z", b"__cxa_", b"__gxx_")

FIRST_LINK_S = 600.0
"""Deadline of a link with an empty cache, in seconds: it builds the C library, perhaps that of C++, too."""


def link_program(
    linker: Path,
    objects: Sequence[Path],
    output: Path,
    cache_dir: Path,
    timeout_s: float,
    target: str,
    options: Sequence[str] = ("-s",),  # symbols of the library would be most of the file
) -> None:
    """Link objects, one of which defines ``main``, with the C library, and with libc++ if they need that of C++.

    Args:
        linker: what `toolchain.find_linker` gives.
        objects: object files, in the order of linking.
        output: the program; replaced atomically.
        cache_dir: folder for zig's caches. The first link with an empty one builds the C library, which takes about
            half a minute; later ones take less than a tenth of a second.
        timeout_s: deadline of the link.
        target: triple of the objects, such as ``x86_64-linux-gnu``; the program is for its first part.
        options: further ones of the linker.

    Raises:
        LinkError: the linker refuses, for example because a symbol is missing.
    """
    triple = f"{target.split('-')[0]}-linux-musl"
    with scratch_directory() as directory:
        program = directory / "program"
        files = [str(path.absolute()) for path in objects]
        try:
            symbols = [global_symbols(path.read_bytes()) for path in objects]
        except ObjectError as error:
            raise LinkError(f"an object cannot be linked: {error}") from error
        defined, needed = (frozenset[bytes]().union(*names) for names in zip(*symbols, strict=True))
        driver = "c++" if any(name.startswith(_OF_CXX) for name in needed - defined) else "cc"
        command = [str(linker), driver, "-target", triple, *_LINK_OPTIONS, *options, *files, "-o", str(program)]
        await_linker(Child(command, cwd=directory, env=zig_environment(cache_dir)), timeout_s)
        write_atomically(output, lambda temporary: shutil.copy(program, temporary))


_MAX_MEMORY_BYTES = 8 * 10**9
_MAX_OUTPUT_BYTES = 10**7
_MAX_COUNTS_BYTES = 10**9
_COUNTS, _OUTPUT, _PROGRAM = "counts", "stdout", "program"
_OPTIONS = (
    "--command-line-only=yes",  # neither ~/.valgrindrc nor VALGRIND_OPTS
    "--main-stacksize=8388608",  # else the size of the stack would be the shell's limit
    "--vgdb=no",
    f"--log-file={_COUNTS}",
)
_LACKEY = ("--tool=lackey", "--basic-counts=yes", "--detailed-counts=yes", "--vex-iropt-level=0")
_CACHEGRIND = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_CALLGRIND_OUT = "callgrind"
CALLGRIND = (
    *("--tool=callgrind", "--dump-instr=yes", "-q"),
    *("--compress-pos=no", "--compress-strings=no", "--demangle=no"),
)
"""Counts by address, and of calls."""

_I_REFS = re.compile(r"^==\d+==\s+I\s+refs:\s+([\d,]+)$", re.MULTILINE)
_INSTRUCTIONS = re.compile(r"^==\d+==\s+guest instrs:\s+([\d,]+)$", re.MULTILINE)
_TYPE = re.compile(r"^==\d+==\s+[A-Z]+\d+\s+([\d,]+)\s+([\d,]+)\s+[\d,]+$", re.MULTILINE)


class Valgrind(NamedTuple):
    """A valgrind of this machine, with its version as it names itself, such as ``valgrind-3.19.0``."""

    binary: Path
    version: str


class CountedRun(NamedTuple):
    """What one run of a program did, from its start to its end."""

    instructions: int  # executed instructions
    reads: int  # loads from memory, of any width
    writes: int  # stores to memory, of any width
    stdout: bytes  # what it wrote there
    exit_status: int  # 0 to 255


def find_valgrind() -> Valgrind:
    """Find valgrind on the path."""
    found = shutil.which("valgrind")
    if found is None:
        raise ToolchainError("valgrind, which counts what programs execute, is missing; install the package valgrind")
    version = ask_version([found]).strip()
    if not version.startswith("valgrind-"):
        raise ToolchainError(f"{found} --version does not name a valgrind; install the package valgrind anew")
    return Valgrind(Path(found).absolute(), version)


def count_run(valgrind: Valgrind, program: Path, timeout_s: float) -> CountedRun:
    """Run a static executable, without arguments and input, and count what it executes.

    Counting takes 10 to 50 times as long as running.
    """
    run = _run(valgrind, _LACKEY, program, timeout_s)
    instructions, types = _INSTRUCTIONS.search(run.log), _TYPE.findall(run.log)
    if instructions is None or not types:
        raise run.refusal()
    return CountedRun(
        instructions=_number(instructions[1]),
        reads=sum(_number(loads) for loads, _ in types),
        writes=sum(_number(stores) for _, stores in types),
        stdout=run.stdout,
        exit_status=run.exit_status,
    )


def count_instructions(valgrind: Valgrind, program: Path, timeout_s: float, expected: bytes) -> int:
    """Run a program that must print something, and count the instructions alone; else as `count_run`."""
    run = _run(valgrind, _CACHEGRIND, program, timeout_s)
    instructions = _I_REFS.search(run.log)
    if instructions is None:
        raise run.refusal()
    run.check(expected)
    return _number(instructions[1])


def count_addresses(valgrind: Valgrind, program: Path, timeout_s: float, expected: bytes) -> str:
    """Run a program that must print something; what callgrind writes of it, where the program is its only file."""
    tool = (*CALLGRIND, f"--callgrind-out-file={_CALLGRIND_OUT}")
    run = _run(valgrind, tool, program, timeout_s, _MAX_COUNTS_BYTES)
    if not run.written:
        raise run.refusal()
    run.check(expected)
    return run.written


class _Run(NamedTuple):
    """A run that ended by itself: name of the program, what valgrind logged, wrote and said, what it printed."""

    name: str
    log: str
    written: str
    stderr: str
    stdout: bytes
    exit_status: int

    def refusal(self) -> ProgramError:
        """Why there are no counts."""
        reason = (self.stderr.strip() or self.log.strip()).splitlines()[-1:] or ["it said nothing"]
        return ProgramError(without_folders(f"valgrind cannot run {self.name}: {reason[0][:300]}"))

    def check(self, expected: bytes) -> None:
        """Raise ProgramOutput unless it did what it should."""
        if self.exit_status != 0:
            raise ProgramOutput(f"{self.name} ended with status {self.exit_status}")
        if self.stdout != expected:
            raise ProgramOutput(f"{self.name} printed {self.stdout[:60]!r}, where {expected[:60]!r} is right")


def _run(
    valgrind: Valgrind, tool: Sequence[str], program: Path, timeout_s: float, max_bytes: int = _MAX_OUTPUT_BYTES
) -> _Run:
    with scratch_directory() as directory:
        shutil.copy(program, directory / _PROGRAM)
        run = Child(
            [str(valgrind.binary), *_OPTIONS, *tool, f"./{_PROGRAM}"],
            cwd=directory,
            env={name: os.environ[name] for name in ("VALGRIND_LIB",) if name in os.environ},
            max_memory_bytes=_MAX_MEMORY_BYTES,
            stdout=directory / _OUTPUT,
            max_file_bytes=max_bytes,
        ).finish(timeout_s)
        if run.returncode is None:
            raise ProgramTimeout(f"{program.name} did not end within {timeout_s:g} s")
        if run.returncode < 0:
            name = signal.Signals(-run.returncode).name
            raise ProgramError(f"{program.name} was ended by signal {-run.returncode} ({name})")
        log, written = (
            path.read_text(errors="replace") if (path := directory / name).exists() else ""
            for name in (_COUNTS, _CALLGRIND_OUT)
        )
        return _Run(program.name, log, written, run.stderr, (directory / _OUTPUT).read_bytes(), run.returncode)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@dataclass(frozen=True)
class ProgramRunner:
    """Links programs for a target, a triple, and runs each under valgrind for ``timeout_s`` seconds at most.

    ``cache_dir`` is the folder for the linker's caches.
    """

    target: str
    cache_dir: Path
    timeout_s: float

    def find_tools(self) -> tuple[Path, Valgrind]:
        """The linker and valgrind."""
        return find_linker(), find_valgrind()

    def instructions_of(self, module: Path, compiled: Path) -> int | None:
        """What the program executes that a module's file describes, by the object ``compiled``; None without one.

        The file says what the program prints and how large it may be. Errors are those of `count`.
        """
        program = generation_of(module).program
        return None if program is None else self.count(program, compiled)

    def count(self, program: RunnableProgram, compiled: Path) -> int:
        """What a program executes; LinkError where its object does not link."""
        text = text_size(read_sections(compiled.read_bytes()))
        if text > program.most_text_bytes:
            raise ProgramSize(f"text of {text:,} bytes, where {program.most_text_bytes:,} are the bound")
        linker, valgrind = self.find_tools()
        with scratch_directory() as folder:
            link_program(linker, [compiled], folder / "program", self.cache_dir, FIRST_LINK_S, self.target)
            return count_instructions(valgrind, folder / "program", self.timeout_s, program.stdout)
