"""What capturing costs: wrappers around a build, and seconds and memory of 500 to 50,000 modules.

Example:
    python -m benchmarks.capture wrappers --sources ninja-1.13.2 --rounds 5
    python -m benchmarks.capture scale --sizes 500 5000 50000
"""

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark
from mlgo.base.artifacts import PROJECT, read_table
from mlgo.base.config import load_config
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.store import CAPTURED_NAME
from mlgo.errors import ConfigError, ToolchainError
from mlgo.host.frontend import FrontEnd
from mlgo.host.toolchain import find_toolchain

_EXAMPLE = """
/* Its name is in every module another one. */
struct node { struct node *next; int key; unsigned long weight; };
static unsigned long mix(unsigned long a, unsigned long b) { return (a ^ (b << 7)) * 0x9e3779b97f4a7c15ul; }
static struct node *skip(struct node *one, int n) { while (one && n-- > 0) one = one->next; return one; }
unsigned long NAME(struct node *one, int n) {
  unsigned long sum = 0;
  for (; one; one = skip(one, n & 3)) sum = mix(sum, one->weight + one->key);
  return sum;
}
"""
_NAME = "module_00000"
_LOOKUPS = 50
_MLGO = Path(sys.executable).with_name("mlgo")


def main() -> None:
    """Measure and print."""
    parser = benchmark_parser("benchmarks.capture", __doc__)
    parser.add_argument("what", choices=("wrappers", "scale"))
    parser.add_argument("--sources", type=Path, help="wrappers: a project of CMake")
    parser.add_argument("--rounds", type=int, default=5, help="wrappers: builds of each kind (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 5000], help="scale: numbers of modules")
    parser.add_argument("--jobs", type=int, default=2, help="compiles at a time (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if args.what == "wrappers" and args.sources is None:
        raise ConfigError("wrappers needs --sources, a project of CMake")
    print_record(measure_wrappers(args) if args.what == "wrappers" else measure_scale(args), as_json=args.json)


def measure_wrappers(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a build alone and under ``mlgo capture``'s wrappers, in turn; each configures and builds anew.

    Seconds of processors say more than those of the clock where other programs run.
    """
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with scratch_directory() as folder:
        for round_number in range(args.rounds):
            for is_wrapped in (False, True)[:: -1 if round_number % 2 else 1]:
                build = folder / "build"
                shutil.rmtree(build, ignore_errors=True)
                found[is_wrapped].append(_seconds_of_build(args, build, folder / "records", is_wrapped))
    plain, wrapped = (np.array(found[kind]) for kind in (False, True))
    record: dict[str, Any] = {}
    for number, kind in enumerate(("clock", "cpu")):
        record[f"{kind}_plain_s"] = plain[:, number].round(2).tolist()
        record[f"{kind}_wrapped_s"] = wrapped[:, number].round(2).tolist()
        cost = np.median(wrapped[:, number]) / np.median(plain[:, number]) - 1.0
        record[f"{kind}_cost_percent"] = round(100.0 * float(cost), 2)
    return record


def _seconds_of_build(args: argparse.Namespace, build: Path, records: Path, is_wrapped: bool) -> tuple[float, float]:
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"]
    steps = [
        ["cmake", "-G", "Ninja", "-S", str(args.sources), "-B", str(build), *options],
        ["ninja", "-C", str(build), f"-j{args.jobs}"],
    ]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for step in steps:
        wrapper = "import sys; from mlgo.corpus.capture.invocations import run_build; from pathlib import Path; "
        wrapper += "sys.exit(run_build(sys.argv[2:], Path(sys.argv[1])))"
        command = [sys.executable, "-c", wrapper, str(records), *step] if is_wrapped else step
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if run.returncode:
            raise ToolchainError(f"{step[0]} ended with status {run.returncode}: {run.stderr.strip()[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def measure_scale(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds, peak memory and lookups of captures of some sizes, from folders of bitcode."""
    return {f"{size:,} modules": _capture(size, args.jobs) for size in args.sizes}


def _capture(size: int, jobs: int) -> dict[str, Any]:
    with scratch_directory() as folder:
        _write_modules(folder / "bitcode", size)
        output = folder / "captured"
        start = time.perf_counter()
        command = [str(_MLGO), "capture", "-o", str(output), "--from", str(folder / "bitcode"), "--jobs", str(jobs)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, _peak_kb(process.pid))
            time.sleep(0.05)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise ToolchainError(f"mlgo capture ended with status {process.returncode}")
        table = output / CAPTURED_NAME
        names = read_table(table, PROJECT, columns=["module", "ir_sha256"])
        chosen = np.random.default_rng(0).choice(names["module"].to_pylist(), _LOOKUPS)
        lookups = [_seconds_of_lookup(table, str(name)) for name in chosen]
        return {
            "seconds": round(seconds, 1),
            "seconds_per_1000": round(1000.0 * seconds / size, 2),
            "peak_mb": round(peak / 1024, 1),
            "table_mb": round(table.stat().st_size / 1e6, 1),
            "distinct": len(set(names["ir_sha256"].to_pylist())),
            "lookup_ms": round(1000.0 * statistics.median(lookups), 1),
            "slowest_lookup_ms": round(1000.0 * max(lookups), 1),
        }


def _write_modules(folder: Path, size: int) -> None:
    """Modules of one code each under another name, a hundred in a folder; patching names is faster than compiling."""
    config = load_config(Path("config/config.yaml"))
    front_end = FrontEnd(find_toolchain(config.toolchain, config.target), config.compile, folder / "zig-cache")
    folder.mkdir()
    with scratch_directory() as scratch:
        (scratch / "module.c").write_text(_EXAMPLE.replace("NAME", _NAME))
        front_end.compile_to_bitcode(scratch, "c", [], "module.c", scratch / "module.bc")
        template = (scratch / "module.bc").read_bytes()
    shutil.rmtree(folder / "zig-cache", ignore_errors=True)
    assert _NAME.encode() in template
    for number in range(size):
        name = f"module_{number:05d}"
        path = folder / f"{number // 100:03d}" / f"{name}.bc"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(template.replace(_NAME.encode(), name.encode()))


def _peak_kb(process: int) -> int:
    """Largest resident memory of a process so far, without its children."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _seconds_of_lookup(table: Path, name: str) -> float:
    start = time.perf_counter()
    (row,) = read_table(table, PROJECT, ["module", "bitcode"], [("module", "==", name)]).to_pylist()
    assert row["bitcode"]
    return time.perf_counter() - start


if __name__ == "__main__":
    run_benchmark("benchmarks.capture")
