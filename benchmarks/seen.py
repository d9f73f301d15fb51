r"""How well sketches tell nearly equal function bodies from others, by threshold.

Of two versions of a library, functions of the same name count as pairs that should be found. Of unrelated projects,
every function that resembles one of the others is found by mistake. A part of a project is given after a colon, as a
regular expression for its modules. Bodies that are equal are left out of both, as are bodies without a sketch.

Example:
    python -m benchmarks.seen --same captured/lupa:lua53 captured/lupa:lua54 --same captured/zstandard captured/blosc \
        --unrelated captured/brotli captured/quickjs
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark
from mlgo.base.config import load_config
from mlgo.base.work import shared_folder
from mlgo.corpus.bodies import project_bodies, sketch_array
from mlgo.corpus.seen import SeenBodies, each_once
from mlgo.corpus.store import table_of, unpack_project
from mlgo.host.frontend import FrontEnd
from mlgo.host.toolchain import find_toolchain

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def main() -> None:
    """Measure and print."""
    parser = benchmark_parser("benchmarks.seen", __doc__)
    told = "projects, as mlgo corpus seen takes them; may be repeated"
    parser.add_argument("--same", nargs=2, action="append", default=[], metavar="PROJECT", help=f"two versions: {told}")
    parser.add_argument("--unrelated", nargs="+", action="append", default=[], metavar="PROJECT", help=told)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    print_record(measure(args), as_json=args.json)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Shares of instructions by threshold: of pairs, and of functions without one."""
    record: dict[str, Any] = {}
    for first, second in args.same:
        sizes, similar = same_names(read(first), read(second))
        record[f"{_short(first)} and {_short(second)}, {len(sizes)} pairs"] = _shares(sizes, similar)
    for names in args.unrelated:
        first, *others = (read(name) for name in names)
        sizes, similar = most_alike(first, pa.concat_tables(others))
        record[f"{_short(names[0])} without a pair, {len(sizes)} functions"] = _shares(sizes, similar)
    return record


def read(name: str) -> pa.Table:
    """Bodies of a project or of a part of one, each once; those with a sketch."""
    path, _, part = name.partition(":")
    config, shared = load_config(Path("config/config.yaml")), shared_folder()
    toolchain = find_toolchain(config.toolchain, config.target)
    printer = FrontEnd(toolchain, config.compile, shared / "zig-cache").print_ir
    modules, files = unpack_project(table_of(Path(path)), shared / "bitcode")
    bodies = project_bodies(printer, modules, files, shared / "bodies")
    chosen = [bool(re.search(part, module)) for module in bodies["module"].to_pylist()]
    bodies = each_once(bodies.filter(pa.array(chosen)))
    return bodies.filter(bodies["sketch"].is_valid())


def same_names(first: pa.Table, second: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Instructions and similarity of functions that have the same name and other bodies."""
    places = {name: row for row, name in reversed(list(enumerate(second["function"].to_pylist())))}
    pairs = [(row, places[name]) for row, name in enumerate(first["function"].to_pylist()) if name in places]
    bodies, others = first["body"].to_pylist(), second["body"].to_pylist()
    one, two = np.array([pair for pair in pairs if bodies[pair[0]] != others[pair[1]]], np.int64).reshape(-1, 2).T
    similar = (sketch_array(first)[1][one] == sketch_array(second)[1][two]).mean(axis=1)
    return first["instructions"].to_numpy()[one], similar


def most_alike(first: pa.Table, others: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Instructions of functions, and their similarity to the most similar one of others; equal bodies are left out."""
    first = first.filter(pa.array(~np.isin(first["body"].to_numpy(), others["body"].to_numpy())))
    known = SeenBodies.of(others).sketches
    similar = np.array([(known == sketch).mean(axis=1).max() for sketch in sketch_array(first)[1]])
    return first["instructions"].to_numpy(), similar


def _shares(sizes: np.ndarray, similar: np.ndarray) -> Sequence[float]:
    return [round(float(sizes[similar >= least].sum() / max(sizes.sum(), 1)), 4) for least in THRESHOLDS]


def _short(name: str) -> str:
    path, _, part = name.partition(":")
    return ":".join(filter(None, (Path(path).name.removesuffix(".parquet"), part)))


if __name__ == "__main__":
    run_benchmark("benchmarks.seen")
