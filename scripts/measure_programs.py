"""Build runnable programs under references and policies, run them, and count what they execute.

Without valgrind nothing runs, and the table says so; ``--needs-valgrind`` makes that an error.

Example:
    python scripts/measure_programs.py --preset config/presets/regalloc.yaml --recipes config/programs \
        --policies data/policies/es-s0 --workers 2 --output data/execution/programs.parquet
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mlgo.base.artifacts import PROGRAMS, provenance, write_rows
from mlgo.base.files import file_sha256
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import compiler_of, run_program, settings_of, stage_parser, workers_of
from mlgo.errors import ConfigError, PolicyError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.programs import MakeAdvisor, build_programs, measure_programs
from mlgo.evaluate.shipped import NEVER, reference_names
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import ProgramRunner, find_valgrind
from mlgo.host.tasks.task import HEURISTIC, Advisor, Setting, get_task
from mlgo.host.toolchain import Quirks
from mlgo.policy.stored import load_policy

RANDOM_CONTENDERS = 4
"""Random answers are tried with so many seeds: careless allocations to see how cost and execution go together."""


def main() -> None:
    parser = stage_parser(__doc__, "--work", "--workers")
    parser.add_argument(
        "--recipes", type=Path, required=True, help="folder of recipes; projects that trained are left out"
    )
    parser.add_argument("--policies", type=Path, nargs="*", default=[], help="folders")
    parser.add_argument("--needs-valgrind", action="store_true", help="fail where valgrind is missing")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values = settings_of(args)
    (toolchain, settings), task = compiler_of(values), get_task(values.value("task"))
    seed, where = values.value("seed"), workers_of(values)
    seen = {*values.value("corpus.splits.train"), *values.value("corpus.splits.validation")}
    recipes = [path for path in sorted(args.recipes.glob("*.yaml")) if path.stem not in seen]
    if not recipes:
        raise ConfigError(
            f"{args.recipes} holds no recipe of a program that is in neither corpus.splits.train nor validation"
        )
    contenders = _references(toolchain.quirks, task.name, seed, values.value("baseline.random_inline_share"))
    for folder in args.policies:
        policy = load_policy(folder)
        if policy.task != task.name:
            raise PolicyError(f"{folder} was trained for task {policy.task}, not {task.name}")
        contenders[folder.name] = partial(_same, policy)
    cache = (shared_folder(args.work) / "zig-cache").absolute()
    valgrind = find_valgrind() if args.needs_valgrind or shutil.which("valgrind") else None
    runner = ProgramRunner(toolchain.target, cache, settings.compile_timeout_s)
    with (
        scratch_directory() as folder,
        CompileHost(toolchain, task.name, settings, args.workers, workers=where) as host,
    ):
        profiler = runner if values.value("corpus.own_profile") else None
        build = partial(build_programs, recipes, num_threads=args.workers, runner=profiler)
        programs, levels = build(FrontEnd(toolchain, settings, cache, task), folder), {}
        for level in (name for name in reference_names(task, settings.optimization) if name != NEVER):
            there = FrontEnd(toolchain, settings.model_copy(update={"optimization": level}), cache, task)
            levels[level] = build(there, folder / level)
        rows = measure_programs(host, runner, valgrind, programs, contenders, folder, levels)
    origin = provenance(
        **toolchain.provenance,
        task=task.name,
        compile=settings.model_dump(),
        counted_by=valgrind.version if valgrind else "",
        seed=seed,
        policies_sha256={folder.name: file_sha256(folder / "weights.npy") for folder in args.policies},
    )
    write_rows(args.output, rows, PROGRAMS, origin)


def _references(quirks: Quirks, task: str, seed: int, inline_share: float) -> dict[str, MakeAdvisor]:
    """The heuristic, and each reference whose answers are not the heuristic's own.

    Random ones are there several times in register allocation: do its costs rank them as execution does?
    """
    references, sizes = get_task(task).references, not get_task(task).in_code_generation
    contenders: dict[str, MakeAdvisor] = {HEURISTIC: lambda program: None}
    for name, make in references.advisors.items():
        if references.is_heuristic and name == references.traced:
            continue  # needs to be told the default, and does what the heuristic does
        if name == "random" and sizes:
            continue
        if name == "random":
            for number in range(RANDOM_CONTENDERS):
                contenders[f"{name}-{number}"] = partial(_drawn, make, quirks, seed + number, inline_share)
        else:
            contenders[name] = partial(_drawn, make, quirks, seed, inline_share)
    return contenders


def _drawn(make: Callable[[Setting], Advisor], quirks: Quirks, seed: int, inline_share: float, program: str) -> Advisor:
    return make(Setting(seed, program, inline_share, quirks.default_slot))


def _same(advisor: Advisor, program: str) -> Advisor:
    return advisor


if __name__ == "__main__":
    run_program(main)
