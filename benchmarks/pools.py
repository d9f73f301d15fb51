"""What it costs to do the same compiles on another kind of worker.

Example:
    python -m benchmarks.pools
    python -m benchmarks.pools --kinds local ray --address auto --rounds 9
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.arguments import add_policy_options, compiling_parser, run_benchmark
from benchmarks.modules import bitcode_of
from mlgo.base.config import LOCAL_WORKERS, CompileConfig, WorkersConfig
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator, sample
from mlgo.cli.options import positive, read_config
from mlgo.evaluate import CompileHost
from mlgo.evaluate.candidates import CandidateEvaluator
from mlgo.evaluate.memory import tree_key
from mlgo.evaluate.scored import ScoredModule, load_scored_modules
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy
from mlgo.pool.cluster import connect, disconnect
from mlgo.pool.trees import ReplayStore

_NOISE = 0.1

KINDS = ("local", "ray", "serial")
"""Kinds of workers, see section ``workers`` of the configuration."""


@dataclass(frozen=True)
class PoolCost:
    """Generations on one kind of worker, beside those of the first kind in the same round; medians over rounds.

    Attributes:
        kind: of the workers.
        workers: how many.
        evaluations: of each generation.
        compiled_seconds: a generation that is compiled as a whole.
        compiled_over_first: its time over that of the first kind.
        compiled_over_first_range: lowest and highest over rounds.
        recalled_seconds: the same generation again, all of it found in the trees.
        recalled_over_first: its time over that of the first kind.
        recalled_over_first_range: lowest and highest over rounds.
        identical: whether all rewards were those of the first kind, to the last bit.
    """

    kind: str
    workers: int
    evaluations: int
    compiled_seconds: float
    compiled_over_first: float
    compiled_over_first_range: tuple[float, float]
    recalled_seconds: float
    recalled_over_first: float
    recalled_over_first_range: tuple[float, float]
    identical: bool

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def bench_pools(
    toolchain: Toolchain,
    settings: CompileConfig,
    policy: Policy,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    kinds: Mapping[str, WorkersConfig],
    num_candidates: int,
    rounds: int,
    num_workers: int,
) -> list[PoolCost]:
    """Do the same generations on every kind: first compiled, without trees, then found in trees.

    Kinds take turns in who begins, since machines become slower and faster by the minute.

    Args:
        toolchain: compiler to use.
        settings: how it compiles.
        policy: candidates are around it.
        modules: what each candidate is evaluated on.
        bitcode: file by module key.
        kinds: where workers run, by name; the others are held against the first.
        num_candidates: of a generation.
        rounds: how many.
        num_workers: of each kind.

    Raises:
        WorkerError: there are no such workers.
    """
    compiled: dict[str, list[float]] = {name: [] for name in kinds}
    recalled: dict[str, list[float]] = {name: [] for name in kinds}
    rewards: dict[str, list[np.ndarray]] = {name: [] for name in kinds}
    key, objective = tree_key(toolchain, get_task(policy.task), settings), settings.objective

    def candidates(number: int) -> np.ndarray:
        noise = generator(number, "bench", "pools").standard_normal((num_candidates, policy.weights.size))
        return (policy.weights * (1.0 + _NOISE * noise)).astype(np.float32)

    with scratch_directory() as folder:
        for number in range(rounds + 1):  # the first wakes the workers up and does not count
            for name, workers in list(kinds.items())[:: -1 if number % 2 else 1]:
                with CompileHost(toolchain, policy.task, settings, num_workers, workers=workers) as host:
                    evaluator = CandidateEvaluator(host, policy, bitcode, objective)
                    evaluator.rewards(candidates(rounds + 1), modules)  # until all workers have started
                    begin = perf_counter()
                    rewards[name].append(evaluator.rewards(candidates(number), modules))
                    compiled[name].append(perf_counter() - begin)
                trees = ReplayStore(folder / f"{name}-{number}", key)
                with CompileHost(toolchain, policy.task, settings, num_workers, trees, workers=workers) as host:
                    evaluator = CandidateEvaluator(host, policy, bitcode, objective)
                    evaluator.rewards(candidates(number), modules)
                    begin = perf_counter()
                    rewards[name].append(evaluator.rewards(candidates(number), modules))
                    recalled[name].append(perf_counter() - begin)
    first = next(iter(kinds))
    return [
        PoolCost(
            name,
            num_workers,
            num_candidates * len(modules),
            *_beside(compiled[name][1:], compiled[first][1:]),
            *_beside(recalled[name][1:], recalled[first][1:]),
            all(np.array_equal(*pair, equal_nan=True) for pair in zip(rewards[name], rewards[first], strict=True)),
        )
        for name in kinds
    ]


def _beside(seconds: Sequence[float], first: Sequence[float]) -> tuple[float, float, tuple[float, float]]:
    """Median time, median ratio, range of ratios."""
    ratios = np.array(seconds) / np.array(first)
    low, high = float(ratios.min()), float(ratios.max())
    return round(float(np.median(seconds)), 3), round(float(np.median(ratios)), 3), (round(low, 3), round(high, 3))


def main() -> None:
    """Measure, and print a line for each kind of worker."""
    parser = compiling_parser(__name__, __doc__)
    add_policy_options(parser, "candidates are around it")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="the first is what others are held to")
    parser.add_argument("--address", default="", help="of a Ray cluster (default: one is started here)")
    parser.add_argument("--modules", type=positive, default=12, help="of each generation (default: %(default)s)")
    parser.add_argument("--candidates", type=positive, default=8, help="of each generation (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=5, help="generations of each kind (default: %(default)s)")
    args = parser.parse_args()
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    count, candidates, rounds = (4, 4, 2) if args.quick else (args.modules, args.candidates, args.rounds)
    scored = load_scored_modules(args.data / "corpus", args.data / "baseline", "train")
    modules = sample([one for one in scored if one.num_questions], count, config.seed, "bench", "pools")
    bitcode = bitcode_of(args.data, modules)
    common = {"address": args.address, "num_workers": args.workers}
    kinds = {kind: LOCAL_WORKERS.model_copy(update={"kind": kind, **common}) for kind in args.kinds}
    with ExitStack() as stack:
        if "ray" in kinds:  # one cluster for all rounds
            connect(args.address, kinds["ray"].files)
            stack.callback(disconnect)
        costs = bench_pools(
            toolchain,
            config.compile,
            load_policy(args.policy),
            modules,
            bitcode,
            kinds,
            candidates,
            rounds,
            args.workers,
        )
    if args.json:
        print(json.dumps([cost.record() for cost in costs], indent=2))
        return
    print(f"{costs[0].evaluations} evaluations a generation, {args.workers} workers, {rounds} rounds")
    print(f"  kind    compiled, s   over {costs[0].kind} (range)           in trees, s   over {costs[0].kind} (range)")
    for one in costs:
        (low, high), (least, most) = one.compiled_over_first_range, one.recalled_over_first_range
        print(
            f"  {one.kind:<7} {one.compiled_seconds:>11.2f}   {one.compiled_over_first:.3f} ({low:.3f} to {high:.3f})"
            f"     {one.recalled_seconds:>11.3f}   {one.recalled_over_first:.2f} ({least:.2f} to {most:.2f})"
            f"{'' if one.identical else '   OTHER REWARDS'}"
        )


if __name__ == "__main__":
    run_benchmark("benchmarks.pools")
