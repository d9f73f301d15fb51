"""Memory and time of the fit of marginal costs, with 1, 10 and 100 times the compiles of the default training.

Compiles are made up, in the shapes of real ones: as many questions as the modules of a trace ask, some answers turned
around, functions and sizes. Each scale runs in a process of its own, members side by side as in a training. A fit has
one epoch: its equations are made, then read twice for the held-out loss and once to learn.

Example:
    python -m benchmarks.fit
    python -m benchmarks.fit --scale 100 --workers 2 --folder /var/tmp --json
"""

import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from benchmarks.arguments import compiling_parser, print_record, run_benchmark
from mlgo.base.artifacts import read_table
from mlgo.base.seeding import generator
from mlgo.base.threads import one_thread_each
from mlgo.cli.program import positive, read_config
from mlgo.evaluate.episodes import Inlined
from mlgo.host.session import CallAttribution
from mlgo.learn.cloning import CloneData
from mlgo.learn.dataset import MOST_QUESTIONS
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.evidence import CompileFile, Evidence
from mlgo.learn.marginal.fit import CostFitter, as_costs
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture

_INLINED, _TURNED = 0.6, 0.03
"""Share of the questions of a trace that the heuristic answers by yes; of answers that exploring turns around."""
_FUNCTIONS = 0.27
"""Functions for each question: `CallAttribution` in explored compiles of the default corpus."""
_NUM_FEATURES = 38
_POOL = 1 << 17
"""Rows that made-up inputs are cut from."""


@dataclass(frozen=True)
class FitCost:
    """One scale.

    Attributes:
        scale: compiles, as a multiple of those of the default training.
        modules: that were compiled.
        compiles: of all of them.
        inlined_questions: of all compiles; each has a row of inputs.
        file_gb: compiles on disk.
        known_mb: peak resident memory once TensorFlow is loaded and all compiles are known.
        peak_mb: peak resident memory in the end.
        seconds: fits of all members.
        ms_per_compile: the same for each compile, in milliseconds.
    """

    scale: int
    modules: int
    compiles: int
    inlined_questions: int
    file_gb: float
    known_mb: int
    peak_mb: int
    seconds: float
    ms_per_compile: float


def bench_fit(scale: int, questions: np.ndarray, config: MarginalConfig, folder: Path, workers: int) -> FitCost:
    """Make compiles up and fit all members to them.

    Args:
        scale: see `FitCost`.
        questions: int64 [num_modules], of real modules.
        config: sizes of a training; the fit has one epoch.
        folder: on a disk with room for the compiles, about 0.1 GB times the scale.
        workers: fits side by side.
    """
    one_thread_each()
    import_tensorflow(workers)
    rng, num_modules = generator(0, "bench", "fit", scale), scale * config.rounds * config.modules
    pool = rng.standard_normal((_POOL, _NUM_FEATURES)).astype(np.float16)
    with CompileFile(folder, _NUM_FEATURES) as file:
        evidence, num_inlined = {}, 0
        for number in range(num_modules):
            key = f"project/{number}.cpp"
            compiles = _compiles(key, int(rng.choice(questions)), 1 + config.compiles, pool, rng)
            evidence[key] = Evidence(compiles[0].score, ())
            for one in compiles:
                evidence[key] = evidence[key].add(file.store(one))
                num_inlined += len(one.inputs)
        num_anchors = min(MOST_QUESTIONS, scale * int(np.minimum(questions, 1000).sum()))
        answers = (rng.random(num_anchors) < _INLINED).astype(np.float32)
        heuristic = CloneData(np.resize(pool, (num_anchors, _NUM_FEATURES)).astype(np.float32), answers)
        shape = Architecture((_NUM_FEATURES, *config.hidden, 1))
        costs = np.stack(
            [
                as_costs((0.1 * rng.standard_normal(shape.num_params)).astype(np.float32), shape)
                for _ in range(config.members)
            ]
        )
        known, began = _peak_mb(), time.perf_counter()
        one_epoch = config.model_copy(update={"max_epochs": 1})
        CostFitter(shape, heuristic, file, one_epoch, 0).fit_members(costs, evidence, 0, workers)
        seconds = time.perf_counter() - began
        num_compiles = sum(len(one.compiles) for one in evidence.values())
        return FitCost(
            scale,
            num_modules,
            num_compiles,
            num_inlined,
            round(file.num_bytes / 1e9, 2),
            known,
            _peak_mb(),
            round(seconds, 1),
            round(1000.0 * seconds / num_compiles, 2),
        )


def _compiles(key: str, num_questions: int, count: int, pool: np.ndarray, rng: np.random.Generator) -> list[Inlined]:
    """Compiles of one module: the first under the heuristic, others with some answers turned around."""
    start = int(rng.integers(len(pool) - num_questions))
    inputs, usual = pool[start : start + num_questions], rng.random(num_questions) < _INLINED
    num_functions = max(2, round(_FUNCTIONS * num_questions))
    names = np.arange(num_functions, dtype=np.uint64)
    callers, callees = rng.integers(num_functions, size=(2, num_questions), dtype=np.int32)
    found = []
    for number in range(count):
        answers = usual ^ (rng.random(num_questions) < (_TURNED if number else 0.0))
        sizes = rng.integers(20, 400, num_functions).astype(np.float32)
        sizes[rng.random(num_functions) < 0.2] = -1.0
        score = float(sizes[sizes > 0].sum()) + 100.0
        credit = CallAttribution(names, sizes, callers, callees)
        found.append(Inlined.of(key, score, inputs, answers.astype(np.uint8), credit))
    return found


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Measure each scale in a process of its own."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--scale", type=positive, nargs="+", default=[1, 10, 100])
    parser.add_argument("--folder", type=Path, help="for compiles and equations (default: work/fits of --data)")
    parser.add_argument("--workers", type=positive, default=2, help="fits side by side (default: %(default)s)")
    args = parser.parse_args()
    config, trace = read_config(args).marginal, read_table(args.data / "baseline" / "trace.parquet")
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/")
    questions = keys.value_counts().field("counts").to_numpy()
    questions = questions[questions <= config.max_questions]
    folder, records = args.folder or args.data / "work" / "fits", []
    for scale in [1] if args.quick else args.scale:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            records.append(asdict(pool.submit(bench_fit, scale, questions, config, folder, args.workers).result()))
        if not args.json:
            print_record(records[-1], as_json=False)
    if args.json:
        print(json.dumps(records, indent=2))


if __name__ == "__main__":
    run_benchmark("benchmarks.fit")
