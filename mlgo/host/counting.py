"""What a program executes, counted exactly by valgrind.

Its tool *lackey* counts each instruction, each load and each store. *Cachegrind* and *callgrind* would not do: an
instruction that changes a word in memory is only a read to them, and such instructions are what a spilled variable
often becomes. valgrind's optimizer must be off (``--vex-iropt-level=0``), because it drops loads into registers that
are overwritten unread, before the tool sees them.

A load or store counts once, whatever its width. ``push`` and ``call`` store; ``pop`` and ``ret`` load; each repetition
of a string instruction is an instruction.

Where instructions alone are wanted, cachegrind counts them without its caches: the same number, some five times as fast
(``python -m benchmarks.counting``). Callgrind and exp-bbv count repetitions of string instructions otherwise.

All of a run is counted, start-up and C library too. That code is the same in every build of a program (see
mlgo/host/program.py) and gets the same work, so it cancels out of the difference between two builds, but for what
the alignment of copied data decides. To leave it out would need symbols, and would draw the line amid calls.
Start-up and end take 675 instructions in all.

Counts repeat exactly. A program has the same name, an empty environment and a folder of its own in every run, and
valgrind puts its code, heap and stack where they always are, so it cannot tell two runs apart, not even by addresses.
The one thing that differs is the 16 random bytes that the kernel hands to each program; the C library makes guards of
them, by which nothing is decided as long as they are intact.

valgrind computes 80-bit numbers of the x87 unit in 64 bits. The last digit of a fraction that the C library prints can
therefore differ from what the program prints by itself. Programs whose output is compared print whole numbers.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.base.scratch import scratch_directory
from mlgo.errors import ProgramError, ProgramOutput, ProgramTimeout, ToolchainError
from mlgo.host.process import run_bounded, without_folders

_VERSION_TIMEOUT_S = 30.0
_MAX_MEMORY_BYTES = 8 * 10**9
_MAX_OUTPUT_BYTES = 10**7
_COUNTS, _OUTPUT, _PROGRAM = "counts", "stdout", "program"
_OPTIONS = (
    "--command-line-only=yes",  # neither ~/.valgrindrc nor VALGRIND_OPTS
    "--main-stacksize=8388608",  # else the size of the stack would be the shell's limit
    "--vgdb=no",
    f"--log-file={_COUNTS}",
)
_LACKEY = ("--tool=lackey", "--basic-counts=yes", "--detailed-counts=yes", "--vex-iropt-level=0")
_CACHEGRIND = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_I_REFS = re.compile(r"^==\d+==\s+I\s+refs:\s+([\d,]+)$", re.MULTILINE)
_INSTRUCTIONS = re.compile(r"^==\d+==\s+guest instrs:\s+([\d,]+)$", re.MULTILINE)
_TYPE = re.compile(r"^==\d+==\s+[A-Z]+\d+\s+([\d,]+)\s+([\d,]+)\s+[\d,]+$", re.MULTILINE)


@dataclass(frozen=True)
class Valgrind:
    """A valgrind of this machine.

    Attributes:
        binary: the executable.
        version: as it names itself, such as ``valgrind-3.19.0``.
    """

    binary: Path
    version: str


@dataclass(frozen=True)
class CountedRun:
    """What one run of a program did, from its start to its end.

    Attributes:
        instructions: executed instructions.
        reads: loads from memory, of any width.
        writes: stores to memory, of any width.
        stdout: what it wrote there.
        exit_status: 0 to 255.
    """

    instructions: int
    reads: int
    writes: int
    stdout: bytes
    exit_status: int


def find_valgrind() -> Valgrind:
    """Find valgrind on the path.

    Raises:
        ToolchainError: it is not there or does not start.
    """
    found = shutil.which("valgrind")
    if found is None:
        raise ToolchainError("valgrind, which counts what programs execute, is missing; install the package valgrind")
    try:
        run = subprocess.run(
            [found, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{found} does not start ({error}); install the package valgrind anew") from error
    version = run.stdout.strip()
    if run.returncode != 0 or not version.startswith("valgrind-"):
        raise ToolchainError(f"{found} --version does not name a valgrind; install the package valgrind anew")
    return Valgrind(Path(found).absolute(), version)


def count_run(valgrind: Valgrind, program: Path, timeout_s: float) -> CountedRun:
    """Run a program, without arguments and input, and count what it executes.

    Args:
        valgrind: what `find_valgrind` gives.
        program: a static executable.
        timeout_s: deadline of the run, in seconds; counting takes 10 to 50 times as long as running.

    Raises:
        ProgramTimeout: it did not end in time.
        ProgramError: a signal ended it (also when it writes more than 10 MB), or valgrind cannot run it.
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
    """Run a program that must print something, and count the instructions alone; else as `count_run`.

    Raises:
        ProgramTimeout: it did not end in time.
        ProgramOutput: it printed something else, or ended with another status than 0.
        ProgramError: a signal ended it (also when it writes more than 10 MB), or valgrind cannot run it.
    """
    run = _run(valgrind, _CACHEGRIND, program, timeout_s)
    instructions = _I_REFS.search(run.log)
    if instructions is None:
        raise run.refusal()
    if run.exit_status != 0:
        raise ProgramOutput(f"{program.name} ended with status {run.exit_status}")
    if run.stdout != expected:
        raise ProgramOutput(f"{program.name} printed {run.stdout[:60]!r}, where {expected[:60]!r} is right")
    return _number(instructions[1])


@dataclass(frozen=True)
class _Run:
    """A run that ended by itself: name of the program, what valgrind logged and said, what it printed."""

    name: str
    log: str
    stderr: str
    stdout: bytes
    exit_status: int

    def refusal(self) -> ProgramError:
        """Why there are no counts."""
        reason = (self.stderr.strip() or self.log.strip()).splitlines()[-1:] or ["it said nothing"]
        return ProgramError(without_folders(f"valgrind cannot run {self.name}: {reason[0][:300]}"))


def _run(valgrind: Valgrind, tool: Sequence[str], program: Path, timeout_s: float) -> _Run:
    with scratch_directory() as directory:
        shutil.copy(program, directory / _PROGRAM)
        run = run_bounded(
            [str(valgrind.binary), *_OPTIONS, *tool, f"./{_PROGRAM}"],
            timeout_s,
            cwd=directory,
            env={name: os.environ[name] for name in ("VALGRIND_LIB",) if name in os.environ},
            max_memory_bytes=_MAX_MEMORY_BYTES,
            stdout=directory / _OUTPUT,
            max_file_bytes=_MAX_OUTPUT_BYTES,
        )
        if run.returncode is None:
            raise ProgramTimeout(f"{program.name} did not end within {timeout_s:g} s")
        if run.returncode < 0:
            name = signal.Signals(-run.returncode).name
            raise ProgramError(f"{program.name} was ended by signal {-run.returncode} ({name})")
        log = directory / _COUNTS
        text = log.read_text(errors="replace") if log.exists() else ""
        return _Run(program.name, text, run.stderr, (directory / _OUTPUT).read_bytes(), run.returncode)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
