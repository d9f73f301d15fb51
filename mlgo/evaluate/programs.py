"""What decisions are worth when code runs: programs built under several advisors, run, and counted."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tqdm import tqdm

from mlgo.base.artifacts import Row
from mlgo.base.files import write_bytes
from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.profiled import build_under_own_profile
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import CompileError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import FIRST_LINK_S, ProgramRunner, Valgrind, count_run, link_program
from mlgo.host.tasks.task import Advisor
from mlgo.host.toolchain import find_linker
from mlgo.objects.measures import MEASURES

NO_VALGRIND = "valgrind, which counts what programs execute, is missing; install the package valgrind and run again"
"""Why programs did not run."""

MakeAdvisor = Callable[[str], Advisor | None]
"""Makes the advisor of a program, named by the argument; None compiles plainly."""


@dataclass(frozen=True)
class BitcodeProgram:
    """One program, compiled to bitcode."""

    name: str
    modules: tuple[Path, ...]
    expected: bytes


def build_programs(
    recipes: Sequence[Path], compiler: FrontEnd, folder: Path, num_threads: int, runner: ProgramRunner | None = None
) -> list[BitcodeProgram]:
    """Compile programs to bitcode; each recipe says what its program prints. A ``runner`` makes a profile of each."""
    folder.mkdir(parents=True, exist_ok=True)
    build = build_project if runner is None else partial(build_under_own_profile, runner=runner)
    programs = []
    for path in sorted(recipes):
        recipe = load_recipe(path)
        rows = build(path.stem, recipe, compiler, BuildLimits(1_000, 0.0, 0, num_threads), folder)
        modules = []
        for number, row in enumerate(rows):
            modules.append(folder / f"{path.stem}-{number}.bc")
            write_bytes(modules[-1], row["bitcode"])
        programs.append(BitcodeProgram(path.stem, tuple(modules), recipe.expected))
    return programs


def measure_programs(
    host: CompileHost,
    runner: ProgramRunner,
    valgrind: Valgrind | None,
    programs: Sequence[BitcodeProgram],
    contenders: Mapping[str, MakeAdvisor],
    folder: Path,
    levels: Mapping[str, Sequence[BitcodeProgram]] | None = None,
) -> list[Row]:
    """Build every program under every contender, run it, and count; without valgrind nothing runs.

    Returns:
        Rows of ``artifacts.PROGRAMS``, by program and contender. What cannot be built or run is a row, too.
    """
    ways: dict[str, Sequence[BitcodeProgram]] = {**dict.fromkeys(contenders, programs), **(levels or {})}
    pairs = [(built[number], name) for number in range(len(programs)) for name, built in ways.items()]
    jobs = []
    for program, name in pairs:
        for module, path in zip(program.modules, _objects(program, name, folder), strict=True):
            advisor, level = (contenders[name](program.name), "") if name in contenders else (None, name)
            key = f"{program.name}/{module.stem}"
            jobs.append(CompileJob(key, module, advisor, optimization=level, object_path=path))
    outcomes = iter(host.compile_all(jobs, "programs"))
    compiled = [[next(outcomes) for _ in program.modules] for program, _ in pairs]
    with ThreadPoolExecutor(host.num_workers) as pool:
        built = [program for program, _ in pairs], [name for _, name in pairs], compiled
        rows = pool.map(lambda one, name, found: _row(runner, valgrind, one, name, found, folder), *built)
        return list(tqdm(rows, "runs", len(pairs), unit="run", disable=None))


def _objects(program: BitcodeProgram, contender: str, folder: Path) -> list[Path]:
    return [folder / f"{module.stem}.{contender}.o" for module in program.modules]


def _row(
    runner: ProgramRunner,
    valgrind: Valgrind | None,
    program: BitcodeProgram,
    contender: str,
    outcomes: Sequence[CompileOutcome],
    folder: Path,
) -> Row:
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    row: Row = {"program": program.name, "contender": contender, "failure": "", "message": ""}
    failed = next((outcome for outcome in outcomes if outcome.result is None), None)
    if failed is not None:
        return row | {"failure": failed.failure, "message": failed.message}
    for name in (name for name, measure in MEASURES.items() if measure.of_program):
        scores = [result.scores[name] for result in results]
        row[name] = None if None in scores else sum(score for score in scores if score is not None)
    if valgrind is None:
        return row | {"failure": "valgrind", "message": NO_VALGRIND}
    executable, objects = folder / f"{program.name}.{contender}", _objects(program, contender, folder)
    try:
        link_program(find_linker(), objects, executable, runner.cache_dir, FIRST_LINK_S, runner.target)
        run = count_run(valgrind, executable, runner.timeout_s)
    except CompileError as error:
        return row | {"failure": error.kind, "message": str(error)}
    right = run.exit_status == 0 and run.stdout == program.expected
    return row | {"instructions": run.instructions, "reads": run.reads, "writes": run.writes, "right": right}
