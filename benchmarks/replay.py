"""The same generations of evolution strategies with and without response trees.

Example:
    python -m benchmarks.replay
    python -m benchmarks.replay --perturbation 0.05 0.3 --generations 20
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import add_policy_option, compiling_parser, print_record, run_benchmark
from mlgo.base.config import Config
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.cli.program import positive, positive_float, read_config
from mlgo.corpus.store import unpack_bitcode
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline import load_scored_modules, with_questions
from mlgo.evaluate.training import candidate_rewards
from mlgo.evaluate.worker import tree_key
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.learn.es.gradient import Coordinates
from mlgo.learn.es.loop import evolve
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy
from mlgo.pool.tree_store import ReplayStore


@dataclass(frozen=True)
class ReplayRatios:
    """What response trees save at one size of perturbations.

    Attributes:
        perturbation: standard deviation of the noise.
        identical: all rewards were bit-identical.
        evaluations: candidates times modules.
        compiles: compiles with trees; without, every evaluation is one.
        compiles_ratio: evaluations over compiles.
        hit_rate: share of evaluations that needed no compile.
        known_share: share of the compiled questions that were answered in advance.
        wall_ratio: time without trees over time with them; median over generations.
        wall_ratio_min: smallest of any generation.
        wall_ratio_max: largest.
        wall_ratio_first: of the first generation, in which the trees start empty.
        nodes: questions in the trees at the end.
        bytes_per_node: what a question takes on disk.
        memory_bytes_per_node: and in memory.
    """

    perturbation: float
    identical: bool
    evaluations: int
    compiles: int
    compiles_ratio: float
    hit_rate: float
    known_share: float
    wall_ratio: float
    wall_ratio_min: float
    wall_ratio_max: float
    wall_ratio_first: float
    nodes: int
    bytes_per_node: float
    memory_bytes_per_node: float

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def bench_replay(
    config: Config,
    toolchain: Toolchain,
    start: Policy,
    data: Path,
    perturbation: float,
    generations: int,
    num_modules: int,
    num_workers: int,
) -> ReplayRatios:
    """Run generations, each first without and then with trees, which start empty.

    Args:
        config: the rest of the settings of evolution strategies.
        toolchain: compiler to use.
        start: policy to start from.
        data: folder with corpus/, baseline/ and work/.
        perturbation: standard deviation of the noise; the step shrinks with it.
        generations: how many.
        num_modules: training modules of each generation; the same in all.
        num_workers: processes.
    """
    es = config.es
    steps = es.step_size * perturbation / es.perturbation
    es = es.model_copy(
        update={"perturbation": perturbation, "step_size": steps, "generations": generations, "validate_every": 10**9}
    )
    train = with_questions(load_scored_modules(data / "corpus", data / "baseline", "train"), es.max_questions, "train")
    modules = sample(train, num_modules, config.seed, "bench", "replay")
    bitcode = unpack_bitcode(data / "corpus", [one.module for one in modules], data / "work" / "bitcode")
    key = tree_key(toolchain, get_task(start.task), config.compile)
    seconds: list[tuple[float, float]] = []
    identical = True
    with scratch_directory() as folder:
        store = ReplayStore(folder, key)
        hosts = [CompileHost(toolchain, start.task, config.compile, num_workers, trees) for trees in (None, store)]
        with hosts[0], hosts[1]:
            arguments = modules, bitcode, config.compile.objective

            def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
                nonlocal identical
                begin = time.monotonic()
                expected = candidate_rewards(hosts[0], start, candidates, *arguments)
                middle = time.monotonic()
                rewards = candidate_rewards(hosts[1], start, candidates, *arguments)
                seconds.append((middle - begin, time.monotonic() - middle))
                identical &= np.array_equal(rewards, expected, equal_nan=True)
                return rewards

            layers = start.network().layer_slices()
            coordinates = Coordinates.last_layers(
                start.weights, layers, es.trainable_layers, es.perturbation_unit, es.perturbation_epsilon
            )
            evolve(coordinates, evaluate, lambda weights: np.zeros(1), es, config.seed)
        nodes, disk_bytes, memory_bytes = _sizes(store)
    host = hosts[1]
    ratios = [without / with_trees for without, with_trees in seconds]
    return ReplayRatios(
        perturbation=perturbation,
        identical=identical,
        evaluations=host.num_asked,
        compiles=host.num_compiled,
        compiles_ratio=round(host.num_asked / max(1, host.num_compiled), 3),
        hit_rate=round(1.0 - host.num_compiled / host.num_asked, 4),
        known_share=round(host.num_known_questions / max(1, host.num_questions), 4),
        wall_ratio=round(float(np.median(ratios)), 3),
        wall_ratio_min=round(min(ratios), 3),
        wall_ratio_max=round(max(ratios), 3),
        wall_ratio_first=round(ratios[0], 3),
        nodes=nodes,
        bytes_per_node=round(disk_bytes / max(1, nodes), 1),
        memory_bytes_per_node=round(memory_bytes / max(1, nodes), 1),
    )


def _sizes(store: ReplayStore) -> tuple[int, int, int]:
    """Questions in all trees, their bytes on disk and in memory."""
    nodes = disk_bytes = memory_bytes = 0
    for sha256 in store.modules():
        if (trees := store.load(sha256)) is not None:
            nodes, memory_bytes = nodes + trees.num_nodes, memory_bytes + trees.num_bytes
            disk_bytes += store.file_bytes(sha256)
    return nodes, disk_bytes, memory_bytes


def main() -> None:
    """Measure, and print the ratios for each size of perturbations."""
    parser = compiling_parser(__name__, __doc__)
    add_policy_option(parser, "where to start")
    parser.add_argument("--workers", type=positive, default=os.cpu_count() or 1)
    parser.add_argument(
        "--perturbation", type=positive_float, nargs="+", help="sizes of the noise (default: es.perturbation)"
    )
    parser.add_argument("--generations", type=positive, default=20)
    parser.add_argument("--modules", type=positive, help="modules of each generation (default: es.modules)")
    args = parser.parse_args()
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    generations, modules = (2, 6) if args.quick else (args.generations, args.modules or config.es.modules)
    start = load_policy(args.policy)
    records = []
    for perturbation in args.perturbation or [config.es.perturbation]:
        ratios = bench_replay(config, toolchain, start, args.data, perturbation, generations, modules, args.workers)
        records.append(ratios.record())
        if not args.json:
            print_record(records[-1], as_json=False)
            print()
    if args.json:
        print(json.dumps(records, indent=2))


if __name__ == "__main__":
    run_benchmark("benchmarks.replay")
