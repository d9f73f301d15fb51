"""How good profiles of valgrind's counts are: overlap of their block counts with those of LLVM's instrumentation.

Of each program, sources are compiled to IR before optimization, once with the counts that clang's instrumentation
gives them, once with those that LLVM infers from the profile of `mlgo profile`. The overlap is the sum over all
blocks of the smaller of both shares: 1 where they agree. Needs valgrind, and a whole LLVM with its runtime
(clang-19, llvm-19 and libclang-rt-19-dev of Debian).

Example:
    python -m benchmarks.profile_overlap
    python -m benchmarks.profile_overlap --programs sort --llvm /usr/lib/llvm-19/bin
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import add_options
from mlgo.corpus.recipe import SourceGroup, find_sources, load_recipe
from mlgo.errors import MlgoError
from mlgo.host.sample_profile import WITH_LINES

TO_IR = ["-O2", "-Xclang", "-disable-llvm-passes", "-emit-llvm"]
# Without inlining, as the blocks of an inlined call are those of no function that both know.
LEVELS = ("-O0", "-O1 -fno-inline", "-O2 -fno-inline")
PRINTED = "function(print<block-freq>)"


def main() -> None:
    """Run the benchmark and print."""
    parser = benchmark_parser("benchmarks.profile_overlap", __doc__)
    parser.add_argument("--programs", nargs="+", default=["hash", "image", "json", "regex", "sort"])
    parser.add_argument("--llvm", type=Path, default=Path("/usr/lib/llvm-19/bin"), metavar="DIR")
    add_options(parser, "--json")
    args = parser.parse_args()
    record = {}
    for name in tqdm(args.programs, disable=args.json, unit="program"):
        with scratch_directory() as folder:
            found = Program(args.llvm, folder, Path("config/programs", f"{name}.yaml"))
            counted = found.instrumented()
            record[name] = {level: f"{overlap(counted, found.sampled(level)):.3f}" for level in LEVELS}
    print_record(record, as_json=args.json)


def overlap(one: Counter[str], other: Counter[str]) -> float:
    """Of two distributions over blocks."""
    return sum(min(one[block] / one.total(), other[block] / other.total()) for block in one)


class Program:
    """Sources of a recipe, and what clang makes of them."""

    def __init__(self, llvm: Path, folder: Path, recipe: Path) -> None:
        self.llvm, self.folder = llvm, folder
        described = load_recipe(recipe)
        root = Path(str(described.path)).absolute()
        self.sources = [(unit, root / source) for unit, source in find_sources(described, root)]

    def instrumented(self) -> Counter[str]:
        """Count of each block by LLVM's own instrumentation of IR."""
        objects = []
        for unit, source in self.sources:
            self._compile(unit, source, TO_IR)
            self._run(self.llvm / "opt", "-passes=pgo-instr-gen,instrprof", "module.bc", "-o", "counting.bc")
            objects.append(self.folder / f"{source.stem}.o")
            self._run(self.llvm / "clang", "-O1", "-c", "counting.bc", "-o", objects[-1])
        self._run(self.llvm / "clang++", "-fprofile-generate", *objects, "-o", "counted")
        self._run(self.folder / "counted", LLVM_PROFILE_FILE=str(self.folder / "app.profraw"))
        self._run(self.llvm / "llvm-profdata", "merge", "app.profraw", "-o", "app.profdata")
        return self._blocks([], ["pgo-instr-use", PRINTED], "-pgo-test-profile-file=app.profdata")

    def sampled(self, level: str) -> Counter[str]:
        """The same by the lines of a program that was built at a level."""
        self._build("sampled", [*level.split(), *WITH_LINES])
        mlgo = Path(sys.executable).parent / "mlgo"
        self._run(mlgo, "profile", "-o", "app.prof", "--", self.folder / "sampled")
        passes = ["function(add-discriminators)", "sample-profile", PRINTED]
        options = ["-fprofile-sample-use=app.prof", "-fprofile-sample-accurate", *WITH_LINES]
        inference = ["-sample-profile-use-profi", "-disable-sample-loader-inlining"]  # the first as LLVM 22 by default
        return self._blocks(options, passes, "-sample-profile-file=app.prof", *inference)

    def _compile(self, unit: SourceGroup, source: Path, options: list[str], output: str = "module.bc") -> None:
        compiler = "clang++" if unit.language == "c++" else "clang"
        self._run(self.llvm / compiler, *options, *unit.arguments(), "-c", source, "-o", output)

    def _build(self, name: str, options: list[str]) -> None:
        objects = [f"{source.stem}.o" for _, source in self.sources]
        for (unit, source), output in zip(self.sources, objects, strict=True):
            self._compile(unit, source, options, output)
        self._run(self.llvm / "clang++", *options, *objects, "-o", name)

    def _blocks(self, options: list[str], passes: list[str], *more: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for unit, source in self.sources:
            self._compile(unit, source, [*TO_IR, *options])
            printed = self._run(self.llvm / "opt", f"-passes={','.join(passes)}", *more, "module.bc", "-o", "/dev/null")
            for function in re.split(r"^block-frequency-info: ", printed, flags=re.MULTILINE)[1:]:
                name, *blocks = function.splitlines()
                for number, block in enumerate(blocks):
                    count = re.search(r"count = (\d+)", block)
                    found[f"{source.stem} {name} {number}"] += int(count[1]) if count else 0
        return found

    def _run(self, *words: object, **variables: str) -> str:
        command = list(map(str, words))
        run = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=1800
        )
        if run.returncode:
            raise MlgoError(f"{' '.join(command)} failed: {run.stderr[-500:]}")
        return run.stderr


if __name__ == "__main__":
    run_benchmark("benchmarks.profile_overlap")
