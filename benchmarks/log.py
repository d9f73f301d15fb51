"""Reading a recorded trace: by our parser of LLVM's log format, tensor by tensor, and as a Parquet artifact.

Example:
    python -m benchmarks.log
    python -m benchmarks.log --quick --json
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.arguments import compiling_parser, print_record, run_benchmark
from mlgo.base.artifacts import read_table, write_table
from mlgo.base.scratch import scratch_directory
from mlgo.base.types import TensorSpec
from mlgo.cli.options import positive
from mlgo.errors import ArtifactError
from mlgo.host.log import Header, LogParser, Observation, write_context, write_header, write_observation

_READ_BYTES = 1 << 16
_KEYS = ("project", "module", "context", "step", "answer")


@dataclass(frozen=True)
class LogSpeed:
    """How fast a trace is read; medians over rounds, ranges beside them.

    Attributes:
        questions: observations in the log.
        log_megabytes: its size, in 10^6 bytes.
        naive_per_second: questions per second, tensor by tensor.
        parser_per_second: by our parser.
        parquet_per_second: from the Parquet artifact.
        speedup: parser over naive.
        speedup_min: smallest of any round.
        speedup_max: largest.
        parquet_speedup: Parquet over naive.
    """

    questions: int
    log_megabytes: float
    naive_per_second: int
    parser_per_second: int
    parquet_per_second: int
    speedup: float
    speedup_min: float
    speedup_max: float
    parquet_speedup: float

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def bench_log(trace: pa.Table, max_questions: int, repeats: int) -> LogSpeed:
    """Write the questions of a trace as one log and as Parquet, then read both in turn.

    Args:
        trace: rows of ``artifacts.trace_schema``.
        max_questions: how many of them, from the first.
        repeats: rounds.

    Raises:
        ArtifactError: the trace is empty, or a reader returns other numbers than were written.
    """
    trace = trace.slice(0, max_questions)
    if not trace.num_rows:
        raise ArtifactError("the trace holds no question; run the baseline stage on a larger corpus")
    names = [name for name in trace.column_names if name not in _KEYS]
    expected = np.stack([trace[name].to_numpy() for name in names], axis=1)
    rates: dict[str, list[float]] = {}
    with scratch_directory() as folder:
        log, parquet = folder / "trace.log", folder / "trace.parquet"
        _write_log(log, names, expected)
        write_table(parquet, trace, trace.schema, {})
        readers: dict[str, Callable[[], np.ndarray]] = {
            "naive": lambda: read_by_tensor(log),
            "parser": lambda: read_by_parser(log),
            "parquet": lambda: _read_parquet(parquet, names),
        }
        for _ in range(repeats):
            for name, read in readers.items():
                start = time.perf_counter()
                found = read()
                rates.setdefault(name, []).append(len(expected) / (time.perf_counter() - start))
                if not np.array_equal(found, expected):
                    raise ArtifactError(f"the {name} reader does not return what was written")
        megabytes = log.stat().st_size / 1e6
    speedups = np.divide(rates["parser"], rates["naive"])
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    return LogSpeed(
        questions=len(expected),
        log_megabytes=round(megabytes, 1),
        naive_per_second=round(medians["naive"]),
        parser_per_second=round(medians["parser"]),
        parquet_per_second=round(medians["parquet"]),
        speedup=round(float(np.median(speedups)), 1),
        speedup_min=round(float(speedups.min()), 1),
        speedup_max=round(float(speedups.max()), 1),
        parquet_speedup=round(medians["parquet"] / medians["naive"], 1),
    )


def read_by_parser(path: Path) -> np.ndarray:
    """Observations of a log, ``int64 [num_questions, num_features]``."""
    parser, payloads = LogParser(), []
    with path.open("rb", buffering=0) as file:
        while data := file.read(_READ_BYTES):
            payloads += [event.payload for event in parser.feed(data) if type(event) is Observation]
    if parser.header is None or parser.pending_bytes:
        raise ArtifactError(f"{path} is not a whole log")
    return parser.header.scalars(b"".join(payloads))


def read_by_tensor(path: Path) -> np.ndarray:
    """The same as the format invites to read it: a line of JSON, then one array per tensor."""
    rows = []
    with path.open("rb") as file:
        specs = [TensorSpec.from_json(spec) for spec in json.loads(file.readline())["features"]]
        while line := file.readline():
            if "observation" in json.loads(line):
                tensors = [np.frombuffer(file.read(spec.num_bytes), spec.dtype).reshape(spec.shape) for spec in specs]
                rows.append(tensors)
                file.readline()
    return np.array(rows)[..., 0]


def _read_parquet(path: Path, names: list[str]) -> np.ndarray:
    table = read_table(path, columns=names)
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def _write_log(path: Path, names: list[str], observations: np.ndarray) -> None:
    scalar = np.dtype(np.int64)
    features = tuple(TensorSpec(name, scalar, (1,)) for name in names)
    header = Header(features, advice=TensorSpec("decision", scalar, (1,)))
    with path.open("wb") as file:
        file.write(write_header(header) + write_context(""))
        for number, row in enumerate(observations):
            file.write(write_observation(number, row.tobytes()))


def main() -> None:
    """Measure, and print the speeds."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--questions", type=positive, default=400_000, help="at most (default: %(default)s)")
    parser.add_argument("--repeats", type=positive, default=5, help="rounds (default: %(default)s)")
    args = parser.parse_args()
    questions, repeats = (120_000, 3) if args.quick else (args.questions, args.repeats)
    speed = bench_log(read_table(args.data / "baseline" / "trace.parquet"), questions, repeats)
    print_record(speed.record(), as_json=args.json)


if __name__ == "__main__":
    run_benchmark("benchmarks.log")
