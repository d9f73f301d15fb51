"""What saving policies during training costs a step: in line, and in a thread that writes while compilers work.

Example:
    python -m benchmarks.save
    python -m benchmarks.save --policy data/policies/es-s0 --json
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.arguments import add_policy_options, compiling_parser, print_record, run_benchmark
from benchmarks.modules import bitcode_of, smallest_modules
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator
from mlgo.cli.options import positive, read_config
from mlgo.errors import ArtifactError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.candidates import CandidateEvaluator
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.actions import Binary
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.learn.saver import BackgroundSaver
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy, save_policy

WAYS = ("off", "in_line", "background")
"""Nothing is saved; before the compiles, by the learner; by the learner's thread for it, while compiles run."""

_POLICIES = ("iteration", "best_policy")
_NOISE = 0.1
_NUM_MODULES = 8


@dataclass(frozen=True)
class SaveCost:
    """Steps of one length; medians over rounds, ranges as (lowest, highest).

    Attributes:
        compiles: of each step, all of them real.
        rounds: steps of each way of saving.
        policies: saved in each step.
        off_seconds: a step that saves nothing.
        off_seconds_range: of the same.
        in_line_over_off: step time of saving in line, over that of the same round without.
        in_line_over_off_range: of the same.
        background_over_off: step time of saving in the background, over that of the same round without.
        background_over_off_range: of the same.
        in_line_ms: for how long saving held up the learner, in milliseconds.
        in_line_ms_range: of the same.
        background_ms: the same of saving in the background: queueing, and what was left to write after the compiles.
        background_ms_range: of the same.
    """

    compiles: int
    rounds: int
    policies: int
    off_seconds: float
    off_seconds_range: tuple[float, float]
    in_line_over_off: float
    in_line_over_off_range: tuple[float, float]
    background_over_off: float
    background_over_off_range: tuple[float, float]
    in_line_ms: float
    in_line_ms_range: tuple[float, float]
    background_ms: float
    background_ms_range: tuple[float, float]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def bench_save(
    toolchain: Toolchain,
    settings: CompileConfig,
    policy: Policy,
    modules: Sequence[ScoredModule],
    bitcode: dict[str, Path],
    num_candidates: int,
    rounds: int,
    num_workers: int,
) -> SaveCost:
    """Do steps that wait for compiles, the ways of saving in turn.

    Args:
        toolchain: compiler to use.
        settings: compile settings.
        policy: what is compiled under, with some noise, and saved.
        modules: compiled in each step under each candidate.
        bitcode: file by module key.
        num_candidates: candidates of each step, the same in all.
        rounds: steps of each way.
        num_workers: processes.

    Raises:
        ArtifactError: what was saved is not what should have been.
    """
    noise = generator(0, "bench", "save").standard_normal((num_candidates, policy.weights.size))
    candidates = policy.weights + _NOISE * noise
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    held_up: dict[str, list[float]] = {way: [] for way in WAYS}
    with (
        scratch_directory() as folder,
        CompileHost(toolchain, policy.task, settings, num_workers) as host,
        BackgroundSaver() as saver,
    ):
        evaluator = CandidateEvaluator(host, policy, bitcode, settings.objective)
        wait = partial(evaluator.rewards, candidates, modules)
        wait()  # starts the workers
        for number in range(rounds):
            for position in range(len(WAYS)):
                way = WAYS[(number + position) % len(WAYS)]
                begin = perf_counter()
                lost = _step(way, wait, saver, policy, folder / way)
                seconds[way].append(perf_counter() - begin)
                held_up[way].append(1000 * lost)
        _check(folder)
    off = np.array(seconds["off"])
    return SaveCost(
        compiles=num_candidates * len(modules),
        rounds=rounds,
        policies=len(_POLICIES),
        off_seconds=_median(off),
        off_seconds_range=_range(off),
        in_line_over_off=_median(seconds["in_line"] / off),
        in_line_over_off_range=_range(seconds["in_line"] / off),
        background_over_off=_median(seconds["background"] / off),
        background_over_off_range=_range(seconds["background"] / off),
        in_line_ms=_median(held_up["in_line"]),
        in_line_ms_range=_range(held_up["in_line"]),
        background_ms=_median(held_up["background"]),
        background_ms_range=_range(held_up["background"]),
    )


def _step(way: str, wait: Callable[[], object], saver: BackgroundSaver, policy: Policy, folder: Path) -> float:
    """One step; returns the seconds that it spent on saving."""
    begin = perf_counter()
    for name in _POLICIES:
        if way == "in_line":
            save_policy(policy, folder / name)
        elif way == "background":
            saver.save(folder / name, partial(save_policy, policy))
    middle = perf_counter()
    with saver.writing_allowed():
        wait()
    end = perf_counter()
    saver.flush()
    return middle - begin + perf_counter() - end


def _check(folder: Path) -> None:
    for name in _POLICIES:
        for file in ("policy.json", "weights.npy"):
            if (folder / "in_line" / name / file).read_bytes() != (folder / "background" / name / file).read_bytes():
                raise ArtifactError(f"{name}/{file} differs between the ways of saving")


def _median(values: Any) -> float:
    return round(float(np.median(values)), 4)


def _range(values: Any) -> tuple[float, float]:
    return round(float(np.min(values)), 4), round(float(np.max(values)), 4)


def main() -> None:
    """Measure short and long steps, and print what saving costs each."""
    parser = compiling_parser(__name__, __doc__)
    add_policy_options(parser, "what is saved")
    parser.add_argument("--repeats", type=positive, default=15, help="rounds (default: %(default)s)")
    args = parser.parse_args()
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    modules = smallest_modules(args.data, _NUM_MODULES)
    bitcode = bitcode_of(args.data, modules)
    repeats, policy, records = 4 if args.quick else args.repeats, load_policy(args.policy, Binary), {}
    for length, candidates in {"short": 1, "long": 4 if args.quick else 12}.items():
        cost = bench_save(toolchain, config.compile, policy, modules, bitcode, candidates, repeats, args.workers)
        records[length] = cost.record()
        if not args.json:
            print(f"{length} steps")
            print_record(records[length], as_json=False)
    if args.json:
        print(json.dumps(records, indent=2))


if __name__ == "__main__":
    run_benchmark("benchmarks.save")
