"""What a policy saves and costs at -O2, everywhere and where a profile of the program says that it is cold.

Programs are those of `config/speed`. Bytes are code and unwind tables of their objects, instructions all that a run
executes; both of a program that prints what it should. Needs valgrind.

Example:
    python -m benchmarks.profiles
    python -m benchmarks.profiles --programs ninja lupa --policy data/policies/marginal-s0 --json
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.arguments import add_policy_option, benchmark_parser, print_record, run_benchmark
from mlgo.base.scratch import scratch_directory
from mlgo.base.threads import in_threads
from mlgo.cli.program import add_options
from mlgo.corpus.build import source_folder
from mlgo.corpus.recipe import Recipe, SourceGroup, find_sources, load_recipe, write_generated_files
from mlgo.errors import MlgoError
from mlgo.host.program import count_instructions, find_valgrind
from mlgo.host.sample_profile import WITH_LINES
from mlgo.objects.elf import read_sections, text_size
from mlgo.pool.cores import usable_cores

STATIC = ["-target", "x86_64-linux-musl", "-static"]  # so that no machine runs another C library
UNDER_PROFILE = [*WITH_LINES, "-fprofile-sample-use=app.prof", "-fprofile-sample-accurate"]
PLAIN, EVERYWHERE, COLD = "plain", "everywhere", "cold"


def main() -> None:
    """Run the benchmark and print."""
    parser = benchmark_parser("benchmarks.profiles", __doc__)
    default = [
        *("argon2-cffi-bindings", "blosc", "brotli", "cmarkgfm", "hiredis", "lupa", "marisa-trie", "ninja", "pycares"),
        *("pyclipper", "ruamel.yaml.clib", "ujson", "xxhash", "zopfli", "zstandard"),
    ]
    parser.add_argument("--programs", nargs="+", default=default, help="(default: the 15 real ones)")
    parser.add_argument("--counted", default="-O2", metavar="LEVEL", help="of the counted build (default: %(default)s)")
    add_policy_option(parser, "for inlining")
    add_options(parser, "--json")
    args = parser.parse_args()
    record = {}
    with scratch_directory() as folder:
        for name in tqdm(args.programs, disable=args.json, unit="program"):
            recipe = load_recipe(Path("config/speed", f"{name}.yaml"))
            found = measure(recipe, args.policy.absolute(), folder / name, args.counted)
            record[name] = {kind: f"{size:,} bytes, {run:,} instructions" for kind, (size, run) in found.items()}
            for kind in (EVERYWHERE, COLD):
                size, run = (1 - one / plain for one, plain in zip(found[kind], found[PLAIN], strict=True))
                record[name][f"{kind} saves"] = f"{size:+.2%} of bytes, {run:+.2%} of instructions"
    print_record(record, as_json=args.json)


def measure(recipe: Recipe, policy: Path, folder: Path, counted: str) -> dict[str, tuple[int, int]]:
    """Bytes and executed instructions by kind of build."""
    folder.mkdir()
    root = source_folder(recipe, Path("data/work/sdists"), folder)
    write_generated_files(recipe, root)
    sources = find_sources(recipe, root)
    advised = ["--policy", policy, "--languages", "c,c++"]
    first = compiled(root, sources, [PLAIN], ["--plain"], [*WITH_LINES, counted])
    mlgo(root, "c++", "--plain", "--", *STATIC, *first, "-o", "app")
    mlgo(root, "profile", "-o", "app.prof", "--", "./app")
    kinds: dict[str, list[Any]] = {
        PLAIN: ["--plain"],
        EVERYWHERE: [*advised, "--any-level"],
        COLD: [*advised, "--cold"],
    }
    found = {}
    for kind, options in kinds.items():
        objects = compiled(root, sources, [kind, "profile"], options, UNDER_PROFILE)
        mlgo(root, "c++", "--plain", "--", *STATIC, *objects, "-o", kind)
        size = sum(text_size(read_sections(one.read_bytes())) for one in objects)
        found[kind] = size, count_instructions(find_valgrind(), root / kind, 600.0, recipe.expected)
    return found


def compiled(
    root: Path, sources: Sequence[tuple[SourceGroup, str]], name: Sequence[str], options: list[Any], more: Sequence[str]
) -> list[Path]:
    """Objects of all sources."""

    def build(job: tuple[SourceGroup, str]) -> Path:
        unit, source = job
        output = root / f"{source.replace('/', '-')}.{'.'.join(name)}.o"
        tool = "c++" if unit.language == "c++" else "cc"
        mlgo(root, tool, *options, "--", "-O2", *STATIC, *more, *unit.arguments(), "-c", source, "-o", output)
        return output

    return list(in_threads(build, sources, usable_cores()))


def mlgo(folder: Path, *words: Any) -> None:
    """Run a command of this installation's."""
    command = [str(Path(sys.executable).parent / "mlgo"), *map(str, words)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
    if run.returncode:
        raise MlgoError(f"mlgo {' '.join(map(str, words))} failed: {run.stderr[-500:]}")


if __name__ == "__main__":
    run_benchmark("benchmarks.profiles")
