"""How fast environments are: steps per second with random legal answers, with and without response trees.

Example:
    python -m benchmarks.env
    python -m benchmarks.env --modules data/sample/lz/match.c --json
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.arguments import compiling_parser, run_benchmark
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator
from mlgo.cli.program import positive, read_config
from mlgo.envs import compile_environments
from mlgo.envs.env import CompileEnv

_LARGEST_PRIORITY = 1 << 20
_MODULES = ("json/parser.cpp", "lz/match.c", "matrix/lu.cpp")


@dataclass(frozen=True)
class EnvSpeed:
    """Speed of one environment, live or out of trees.

    Attributes:
        environment: its id.
        trees: whether all answers were known to response trees.
        num_modules: episodes of a repetition, one for each module.
        num_steps: their steps together.
        steps_per_second: over whole episodes, the start of the compiler and the code it generates at the end included;
            median over repetitions.
        steps_per_second_min: slowest repetition.
        steps_per_second_max: fastest repetition.
        step_us: a step that is followed by a question, in microseconds; median over all.
        num_compiles: compilers that were started in all repetitions.
    """

    environment: str
    trees: bool
    num_modules: int
    num_steps: int
    steps_per_second: float
    steps_per_second_min: float
    steps_per_second_max: float
    step_us: float
    num_compiles: int

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _Played:
    seconds: float
    steps: tuple[float, ...]
    compiled: bool


def bench_envs(
    modules: Sequence[Path], toolchain: str, target: str, repeats: int, seed: int, names: Sequence[str] = ()
) -> list[EnvSpeed]:
    """Play the same episodes again and again, live and out of trees in turn.

    Answers of a module are the same in all repetitions, so the trees know them all after a first episode, which does
    not count. Only time inside of ``reset`` and ``step`` counts, not that of choosing answers.

    Args:
        modules: files, bitcode or sources; one episode each.
        toolchain: ``auto`` or a clang.
        target: triple.
        repeats: repetitions that count.
        seed: root seed of the answers.
        names: ids of environments; all if empty.

    Returns:
        one entry for each environment, and another for those that can have trees.
    """
    found = []
    for name in names or compile_environments():
        arguments = {"modules": [str(path) for path in modules], "toolchain": toolchain, "target": target}
        with scratch_directory() as folder:
            live = _made(name, arguments)
            envs = {False: live}
            if isinstance(live.action_space, gymnasium.spaces.Discrete):
                envs[True] = _made(name, {**arguments, "trees": str(folder)})
            played: dict[bool, list[list[_Played]]] = {trees: [] for trees in envs}
            for _ in range(1 + repeats):
                for trees, env in envs.items():
                    played[trees].append([_play(env, one, seed) for one in arguments["modules"]])
            for trees, env in envs.items():
                env.close()
                found.append(_speed(name, trees, played[trees][1:]))
    return found


def _made(name: str, arguments: dict[str, Any]) -> CompileEnv:
    env = gymnasium.make(name, **arguments).unwrapped
    assert isinstance(env, CompileEnv)
    return env


def _play(env: CompileEnv, module: str, seed: int) -> _Played:
    rng, steps, over = generator(seed, "bench", "env", module), [], False
    start = time.perf_counter()
    _, info = env.reset(options={"module": module})
    seconds = time.perf_counter() - start
    while not over:
        if isinstance(env.action_space, gymnasium.spaces.Box):
            answer: Any = rng.integers(_LARGEST_PRIORITY, size=1).astype(np.float32)
        else:
            answer = int(rng.choice(np.flatnonzero(env.action_masks())))
        start = time.perf_counter()
        _, _, terminated, truncated, info = env.step(answer)
        steps.append(time.perf_counter() - start)
        over = terminated or truncated
    return _Played(seconds + sum(steps), tuple(steps), info["compiled"])


def _speed(name: str, trees: bool, rounds: Sequence[Sequence[_Played]]) -> EnvSpeed:
    num_steps = sum(len(one.steps) for one in rounds[0])
    rates = [num_steps / sum(one.seconds for one in some) for some in rounds]
    inner = [step for some in rounds for one in some for step in one.steps[:-1]]
    return EnvSpeed(
        name,
        trees,
        len(rounds[0]),
        num_steps,
        round(float(np.median(rates)), 1),
        round(min(rates), 1),
        round(max(rates), 1),
        round(1e6 * float(np.median(inner)), 1) if inner else 0.0,
        sum(one.compiled for some in rounds for one in some),
    )


def main() -> None:
    """Measure, and print a line for each environment."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--modules", type=Path, nargs="+", help="bitcode or sources (default: three of DATA/sample)")
    parser.add_argument("--repeats", type=positive, default=7, help="repetitions (default: %(default)s)")
    args = parser.parse_args()
    config = read_config(args)
    modules = args.modules or [args.data / "sample" / name for name in _MODULES]
    repeats = min(3, args.repeats) if args.quick else args.repeats
    speeds = bench_envs(modules, config.toolchain, config.target, repeats, config.seed)
    if args.json:
        print(json.dumps([one.record() for one in speeds], indent=2))
        return
    print("environment               trees   steps  compiles  steps per second  (range over repetitions)   us per step")
    for one in speeds:
        low, high = one.steps_per_second_min, one.steps_per_second_max
        print(
            f"{one.environment:<24}  {'yes' if one.trees else 'no':<5}  {one.num_steps:>6}  {one.num_compiles:>8}"
            f"  {one.steps_per_second:>16,.0f}  ({low:,.0f} to {high:,.0f})  {one.step_us:>12.1f}"
        )


if __name__ == "__main__":
    run_benchmark("benchmarks.env")
