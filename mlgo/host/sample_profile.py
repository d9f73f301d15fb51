"""Profiles of what programs execute, in LLVM's text form for ``-fprofile-sample-use``, from valgrind's counts.

Callgrind counts each instruction, whatever started the program; nothing has to be linked into it. The count of a line
is the greatest of its instructions, times the copies of it that LLVM says it has made: a sum would count instructions,
not visits.

Source: llvm/ProfileData/SampleProfReader.h (the text form).
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from mlgo.base.files import read_input
from mlgo.base.scratch import scratch_directory
from mlgo.errors import ObjectError, ProgramError
from mlgo.host.process import run_for_user
from mlgo.host.program import CALLGRIND, FIRST_LINK_S, ProgramRunner, Valgrind, count_addresses, link_program
from mlgo.objects.lines import Frame, find_frames

WITH_LINES = ("-g1", "-gdwarf-4", "-fdebug-info-for-profiling")
"""Options of a program that is to be counted; valgrind before 3.21 ends at some files of DWARF 5."""

_POSITION = re.compile(r"(0x[0-9a-f]+) \S+ (\d+)$")
_CALLS = re.compile(r"calls=(\d+) ")
_AGAIN = re.compile(r"'\d+$")  # what callgrind puts behind the name of a function that calls itself


@dataclass
class Counts:
    """What instructions of a linked file were executed how often, by address."""

    executed: Counter[int] = field(default_factory=Counter)
    calls: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # of functions, by name


@dataclass
class Samples:
    """What a function executed, or a call of it that was inlined."""

    entries: int = 0  # by calls that are none of the inlined ones
    lines: dict[tuple[int, int], int] = field(default_factory=dict)  # by line and discriminator
    calls: dict[tuple[int, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    inlined: dict[tuple[int, int, str], "Samples"] = field(default_factory=lambda: defaultdict(lambda: Samples()))

    @property
    def total(self) -> int:
        return sum(self.lines.values()) + sum(one.total for one in self.inlined.values())

    def at(self, frames: Sequence[Frame]) -> "Samples":
        """Those of the innermost function."""
        found = self
        for outer, inner in pairwise(frames):
            found = found.inlined[outer.line, outer.discriminator, inner.function]
        return found


def run_counted(valgrind: Valgrind, command: Sequence[str]) -> tuple[int, dict[Path, Counts]]:
    """Run a command of the user's under callgrind, with what it starts; its status, and counts by linked file."""
    with scratch_directory() as folder:
        options = [*CALLGRIND, "--trace-children=yes", f"--callgrind-out-file={folder}/%p.counts"]
        status = run_for_user([str(valgrind.binary), *options, *command], os.environ)
        found: dict[Path, Counts] = defaultdict(Counts)
        for file in sorted(folder.glob("*.counts")):
            read_counts(os.fsdecode(read_input(file)).splitlines(), found)
    if not found:
        raise ProgramError(
            f"valgrind counted nothing of {command[0]}, which ended with status {status}; where its reader of debug "
            "information gave up, build with -gdwarf-4, too"
        )
    return status, found


def profile_of_program(runner: ProgramRunner, objects: Sequence[Path], expected: bytes) -> str:
    """Profile of a program of the corpus, linked of objects with lines; errors are those of linking and running it."""
    linker, valgrind = runner.find_tools()
    with scratch_directory() as folder:
        program = folder / "program"
        link_program(linker, objects, program, runner.cache_dir, FIRST_LINK_S, runner.target, options=())
        found: dict[Path, Counts] = defaultdict(Counts)
        read_counts(count_addresses(valgrind, program, runner.timeout_s, expected).splitlines(), found)
        own = next((of_file for path, of_file in found.items() if path.name == program.name), Counts())
        return profile_text(sample_functions({program: own}))


def read_counts(lines: Sequence[str], found: dict[Path, Counts]) -> None:
    """Add the counts of a file of callgrind's, written without compression."""
    here, callee, calls = Counts(), "", 0
    for line in lines:
        if line.startswith("ob="):
            here = found[Path(line[3:])]
        elif line.startswith("cfn="):
            callee = _AGAIN.sub("", line[4:])
        elif called := _CALLS.match(line):
            calls = int(called[1])
        elif place := _POSITION.match(line):
            address = int(place[1], 16)
            if calls:  # what the call cost, within the callee
                here.calls[address][callee] += calls
                calls = 0
            else:
                here.executed[address] += int(place[2])


def sample_functions(counts: Mapping[Path, Counts]) -> dict[str, Samples]:
    """Samples by function, of all linked files that have debug information."""
    functions: dict[str, Samples] = defaultdict(Samples)
    for path, of_file in counts.items():
        try:
            frames_at = find_frames(read_input(path), of_file.executed)
        except (ObjectError, OSError):  # made while it ran, or of the system
            continue
        for address, frames in frames_at.items():
            samples, here = functions[frames[0].function].at(frames), frames[-1]
            place, visits = (here.line, here.discriminator), of_file.executed[address] * here.copies
            samples.lines[place] = max(samples.lines.get(place, 0), visits)
            samples.calls[place].update(of_file.calls.get(address, {}))
    for of_file in counts.values():
        for called in of_file.calls.values():
            for name in called.keys() & functions.keys():
                functions[name].entries += called[name]
    return functions


def profile_text(functions: Mapping[str, Samples]) -> str:
    """The profile, the function with most samples first."""
    lines = []
    for name, samples in sorted(functions.items(), key=lambda one: (-one[1].total, one[0])):
        lines += [f"{name}:{samples.total}:{samples.entries}", *_lines(samples, " ")]
    return "".join(f"{line}\n" for line in lines)


def _lines(samples: Samples, indent: str) -> Iterator[str]:
    for place, count in sorted(samples.lines.items()):
        called = "".join(f" {name}:{calls}" for name, calls in sorted(samples.calls[place].items()))
        yield f"{indent}{_place(*place)}: {count}{called}"
    for (line, discriminator, name), inner in sorted(samples.inlined.items()):
        yield f"{indent}{_place(line, discriminator)}: {name}:{inner.total}"
        yield from _lines(inner, f"{indent} ")


def _place(line: int, discriminator: int) -> str:
    return f"{line}.{discriminator}" if discriminator else str(line)
