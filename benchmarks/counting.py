"""Executed instructions by lackey and by cachegrind: are the counts equal, and what does each take?

Example:
    python -m benchmarks.counting
    python -m benchmarks.counting --quick --json
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import compiling_parser, print_record, run_benchmark
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import compiler_of, settings_of
from mlgo.evaluate.programs import BitcodeProgram, build_programs
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import FIRST_LINK_S, Valgrind, count_instructions, count_run, find_valgrind, link_program
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import Toolchain, find_linker

_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class CountingSpeed:
    """Both tools on the same programs, one after the other.

    Attributes:
        programs: how many.
        instructions: of all, by cachegrind, in 10^6.
        differing: programs of which the tools count different numbers.
        lackey_s: seconds for all programs, median of the rounds.
        cachegrind_s: the same.
        speedup: lackey over cachegrind, median of the rounds.
        speedup_min: smallest of any round.
        speedup_max: largest.
    """

    programs: int
    instructions: float
    differing: int
    lackey_s: float
    cachegrind_s: float
    speedup: float
    speedup_min: float
    speedup_max: float

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def main() -> None:
    """Measure and print."""
    parser = compiling_parser("benchmarks.counting", __doc__)
    args = parser.parse_args()
    toolchain, settings = compiler_of(settings_of(args))
    recipes = sorted(Path("config/programs").glob("*.yaml"))
    found = bench_counting(recipes[:2] if args.quick else recipes, toolchain, settings, 1 if args.quick else 3)
    print_record(found.record(), as_json=args.json)


def bench_counting(
    recipes: Sequence[Path], toolchain: Toolchain, settings: CompileConfig, rounds: int
) -> CountingSpeed:
    """Build programs and count what they execute, with both tools in turn.

    Args:
        recipes: of programs.
        toolchain: compiler to use.
        settings: level and deadline.
        rounds: how often each is counted.

    Raises:
        ToolchainError: valgrind is missing.
        ProgramError: a program does not print what it should.
    """
    valgrind, cache = find_valgrind(), (shared_folder() / "zig-cache").absolute()
    with scratch_directory() as folder:
        programs = build_programs(recipes, FrontEnd(toolchain, settings, cache), folder, 1)
        paths = [_linked(program, toolchain, settings, cache, folder) for program in programs]
        seconds = np.zeros((rounds, 2))
        for number in range(rounds):
            start = time.perf_counter()
            slow = [count_run(valgrind, path, _TIMEOUT_S).instructions for path in paths]
            seconds[number, 0] = time.perf_counter() - start
            start = time.perf_counter()
            fast = [_counted(valgrind, path, one) for path, one in zip(paths, programs, strict=True)]
            seconds[number, 1] = time.perf_counter() - start
    ratios = seconds[:, 0] / seconds[:, 1]
    return CountingSpeed(
        programs=len(programs),
        instructions=round(sum(fast) / 1e6, 1),
        differing=sum(one != other for one, other in zip(slow, fast, strict=True)),
        lackey_s=round(float(np.median(seconds[:, 0])), 2),
        cachegrind_s=round(float(np.median(seconds[:, 1])), 2),
        speedup=round(float(np.median(ratios)), 1),
        speedup_min=round(float(ratios.min()), 1),
        speedup_max=round(float(ratios.max()), 1),
    )


def _counted(valgrind: Valgrind, path: Path, program: BitcodeProgram) -> int:
    return count_instructions(valgrind, path, _TIMEOUT_S, program.expected)


def _linked(program: BitcodeProgram, toolchain: Toolchain, settings: CompileConfig, cache: Path, folder: Path) -> Path:
    objects = [module.with_suffix(".o") for module in program.modules]
    for module, output in zip(program.modules, objects, strict=True):
        compile_plain(toolchain, module, settings, object_path=output)
    path = folder / program.name
    link_program(find_linker(), objects, path, cache, FIRST_LINK_S, toolchain.target)
    return path


if __name__ == "__main__":
    run_benchmark("benchmarks.counting")
