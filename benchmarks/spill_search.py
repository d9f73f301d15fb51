"""What register allocation leaves in single functions of programs that run: a search, function by function.

Each source is compiled under a profile of its program's own run, so a spill cost is what the run executes. One try
draws the weights of live ranges, or their lengths for priority, anew around the rule that LLVM's order resembles; so
close decisions change. Functions are decided one by one: each takes its best try, all in one compile. Both programs
are run and counted. Needs valgrind.

Example:
    python -m benchmarks.spill_search --preset config/presets/regalloc.yaml --preset config/presets/profiled.yaml
    python -m benchmarks.spill_search --preset config/presets/priority.yaml --preset config/presets/profiled.yaml \
        --programs lupa vm --tries 30 --json
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.threads import in_threads
from mlgo.cli.program import CONFIG, add_options, compiler_of, settings_of
from mlgo.errors import CompileError, ConfigError, ProgramError
from mlgo.evaluate.programs import BitcodeProgram, build_programs
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import FIRST_LINK_S, CountedRun, ProgramRunner, count_run, link_program
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.regalloc import BROKEN_HINTS, DENSITY, MASK, SIZE, STAGE, lightest, longest
from mlgo.host.tasks.task import RandomAdvisor, Task, get_task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.pool.cores import usable_cores

PROGRAMS = (
    *("cmarkgfm", "hiredis", "lupa", "marisa-trie", "ninja", "pycares", "xxhash", "zopfli", "zstandard"),
    *("json", "matrix", "regex", "sort", "spectrum", "vm"),
)
NOISES = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Standard deviations of logarithms, in turn; the first try is the rule itself."""
LEAST = 0.01
"""Modules with a smaller share of the program's cost stay as they are."""

RULES = {"regalloc-evict": (lightest, (DENSITY, MASK, BROKEN_HINTS)), "regalloc-priority": (longest, (SIZE, STAGE))}
"""Rule and features of a task, first the one that noise multiplies."""


def main() -> None:
    """Run the benchmark and print."""
    parser = benchmark_parser("benchmarks.spill_search", __doc__)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, help="of config/speed (default: 9 real ones, 6 own)")
    parser.add_argument("--tries", type=int, default=100, help="of each module (default: %(default)s)")
    add_options(parser, "--json", *CONFIG)
    args = parser.parse_args()
    values = settings_of(args)
    (toolchain, settings), task = compiler_of(values), get_task(values.value("task"))
    if not task.in_code_generation:
        raise ConfigError(f"{task.name} allocates no registers; give --preset config/presets/regalloc.yaml")
    search, record = Search(toolchain, settings, task, args.tries), {}
    for name in tqdm(args.programs, disable=args.json, unit="program"):
        record[name] = search.measure(Path("config/speed", f"{name}.yaml"))
    print_record(record, as_json=args.json)


def near(rule: Any, noise: float, rng: np.random.Generator, features: Any) -> Any:
    """What a rule answers to features of one question where the first of them is another."""
    first, *others = features.dtype.names
    values = features[first] * np.exp(noise * rng.standard_normal(np.shape(features[first])))
    return rule({first: values[None], **{name: features[name][None] for name in others}})[0]


class Search:
    """Searches programs with one compiler."""

    def __init__(self, toolchain: Toolchain, settings: CompileConfig, task: Task, tries: int) -> None:
        self.toolchain, self.settings, self.task, self.tries = toolchain, settings, task, tries
        cache = (shared_folder() / "zig-cache").absolute()
        self.runner = ProgramRunner(toolchain.target, cache, settings.compile_timeout_s)
        self.linker, self.valgrind = self.runner.find_tools()
        self.front_end = FrontEnd(toolchain, settings, cache, task)

    def measure(self, recipe: Path) -> dict[str, Any]:
        """Costs and executed accesses of a program under the heuristic and with the best of all tries."""
        with scratch_directory() as folder:
            (program,) = build_programs([recipe], self.front_end, folder, usable_cores(), self.runner)
            plain = [module.with_suffix(".plain.o") for module in program.modules]
            alone = [self.cost_of(module, output) for module, output in zip(program.modules, plain, strict=True)]
            best, costs = list(plain), dict.fromkeys(("heuristic", "rule", "best"), sum(alone))
            for number, (module, cost) in enumerate(zip(program.modules, alone, strict=True)):
                if cost < LEAST * sum(alone) or not cost:
                    continue
                output = module.with_suffix(".best.o")
                of_rule, of_best = self.search(module, output)
                costs["rule"] += of_rule - cost
                if of_best < cost:
                    best[number], costs["best"] = output, costs["best"] + of_best - cost
            runs = [self.count(program, objects, folder) for objects in (plain, best)]
        accesses = [run.reads + run.writes for run in runs]
        record: dict[str, Any] = {f"cost, {kind}": f"{cost:,.0f}" for kind, cost in costs.items()}
        record["best saves of the cost"] = f"{1 - (costs['best'] + 1) / (costs['heuristic'] + 1):+.2%}"
        record["of accesses"] = f"{1 - accesses[1] / accesses[0]:+.2%} of {accesses[0]:,}"
        record["of instructions"] = (
            f"{1 - runs[1].instructions / runs[0].instructions:+.2%} of {runs[0].instructions:,}"
        )
        return record

    def cost_of(self, module: Path, output: Path) -> float:
        """Cost of a module under the heuristic."""
        compiled = compile_plain(self.toolchain, module, self.settings, task=self.task, object_path=output)
        return compiled.score(SPILL_COST.name)

    def search(self, module: Path, output: Path) -> tuple[float, float]:
        """Cost of a module by the rule, and with the best try of each function, whose object goes to ``output``."""
        tries = [one for one in in_threads(partial(self.attempt, module), range(self.tries), usable_cores()) if one]
        cost = [{one.function: SPILL_COST.of_functions([one]) for one in found.spills or ()} for found in tries]
        paths = [found.answer_prefix().contexts for found in tries]
        chosen = []
        for place, context in enumerate(paths[0]):
            best = min(range(len(tries)), key=lambda number: cost[number].get(context.name, 0.0))
            chosen.append(paths[best][place])
        found = self.compile(module, 0, known=AnswerPrefix(tuple(chosen)), object_path=output)
        return sum(cost[0].values()), found.score(SPILL_COST.name)

    def attempt(self, module: Path, number: int) -> CompileResult | None:
        """A try; None if it fails, as with too many questions. The first must not: it is the rule."""
        try:
            return self.compile(module, number)
        except CompileError:
            if number == 0:
                raise
            return None

    def compile(self, module: Path, number: int, **options: Any) -> CompileResult:
        """A module with the answers of a try, or the known ones among ``options``."""
        noise, (rule, features) = NOISES[number % len(NOISES)], RULES[self.task.name]
        advisor = RandomAdvisor(partial(near, rule, noise), number, module.stem, features)
        return compile_under_advice(self.toolchain, self.task, module, advisor, self.settings, record=True, **options)

    def count(self, program: BitcodeProgram, objects: Sequence[Path], folder: Path) -> CountedRun:
        """A run of the program made of these objects."""
        executable = folder / "program"
        link_program(self.linker, objects, executable, self.runner.cache_dir, FIRST_LINK_S, self.runner.target)
        run = count_run(self.valgrind, executable, self.runner.timeout_s)
        if run.stdout != program.expected:
            raise ProgramError(f"{program.name} prints something else than it should")
        return run


if __name__ == "__main__":
    run_benchmark("benchmarks.spill_search")
