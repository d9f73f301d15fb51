"""What `mlgo cc` adds to a compile that asks nothing, and to one that asks; side by side, in turns.

Example:
    python -m benchmarks.driver
    python -m benchmarks.driver --rounds 200 --json
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from tqdm import tqdm

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import add_options, positive
from mlgo.host.toolchain import find_linker

_CALLS = "static int t(int x) {{ return x * {n}; }}\nint u(int x) {{ return t(x) + t(x + 1); }}\n"


def main() -> None:
    """Run the benchmark and print."""
    parser = benchmark_parser("benchmarks.driver", __doc__)
    parser.add_argument("--rounds", type=positive, default=60, help="compiles of each kind (default: %(default)s)")
    add_options(parser, "--json")
    args = parser.parse_args()
    zig, mlgo = str(find_linker()), str(Path(sys.executable).parent / "mlgo")
    compiled = ["-Oz", "-c", "file.c", "-o", "file.o"]
    kinds = {
        "zig cc": [zig, "cc", *compiled],
        "mlgo cc --plain": [mlgo, "cc", "--plain", "--", *compiled],
        "mlgo cc": [mlgo, "cc", "--languages", "c", "--", *compiled],
        "python -m ziglang cc": [sys.executable, "-m", "ziglang", "cc", *compiled],
    }
    times: dict[str, dict[str, list[float]]] = {what: {kind: [] for kind in kinds} for what in ("no question", "two")}
    with scratch_directory() as folder:
        subprocess.run([mlgo, "cc", "--", "--version"], check=True, stdout=subprocess.DEVNULL)
        for number in tqdm(range(args.rounds), disable=args.json, unit="round"):
            for what, text in (("no question", "int x{n};\n"), ("two", _CALLS)):
                for place, (kind, command) in enumerate(kinds.items()):  # each compiles a text of its own: zig caches
                    (folder / "file.c").write_text(text.format(n=4 * number + place + 1))
                    times[what][kind].append(_milliseconds(command, folder))
    record: dict[str, object] = {}
    for what, by_kind in times.items():
        for kind, found in by_kind.items():
            more = [one - zig for one, zig in zip(found, by_kind["zig cc"], strict=True)]
            record[f"{what}: {kind} ms"] = round(median(found), 1)
            record[f"{what}: {kind} more than zig cc, ms"] = round(median(more), 1)
    print_record(record, as_json=args.json)


def _milliseconds(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, env=os.environ)
    return 1e3 * (time.perf_counter() - start)


if __name__ == "__main__":
    run_benchmark("benchmarks.driver")
