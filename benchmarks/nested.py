"""What sharing workers gains: experiments on nested workers together, against each on workers of its own.

Example:
    python -m benchmarks.nested
    python -m benchmarks.nested --experiments 2 --idle 0 0.5 --wait --seconds 15
"""

import argparse
import json
import os
import pickle
import select
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.arguments import compiling_parser, run_benchmark
from benchmarks.processes import descendants
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator
from mlgo.cli.program import not_negative_float, positive, positive_float, read_config
from mlgo.errors import WorkerError
from mlgo.evaluate import CompileJob
from mlgo.evaluate.worker import CompileWorkerSpec
from mlgo.host.frontend import FrontEnd
from mlgo.host.process import die_with_parent
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import Task, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.pool import LocalBackend, Pool, WorkerLost
from mlgo.pool.nested import NestedBackend, serve_workers
from mlgo.pool.schedule import TURN_S
from mlgo.pool.worker import MakeHandler

WAYS = ("dedicated", "shared")
"""Each experiment on its part of the workers; all experiments on all workers."""

IDLE_OF = ("dedicated", "alone", "sharing")
"""What an experiment idles a share of: of its time on its part of the workers; of its time if it had all workers and no
company; of its time when it shares them, at best."""

_CANDIDATES = 1
_CYCLES = 5
_START_S = 120.0
_LONGEST_S = 1200.0
_SETTLING = 2
"""Generations that do not count: experiments begin together and have yet to find their turns."""


@dataclass(frozen=True)
class Work:
    """What a generation asks of workers.

    Attributes:
        name: what it is.
        make_handler: see `MakeHandler`.
        jobs: of one generation.
    """

    name: str
    make_handler: MakeHandler
    jobs: tuple[Any, ...]


@dataclass(frozen=True)
class Sharing:
    """How workers are shared, see `NestingWorker`.

    Attributes:
        at_once: jobs that run on a core at once.
        turn_s: longest turn of an experiment.
    """

    at_once: int = 1
    turn_s: float = TURN_S


@dataclass(frozen=True)
class NestedGain:
    """Experiments that idle, in both ways; medians over rounds, ranges as (lowest, highest).

    Attributes:
        experiments: how many.
        workers: that all have together.
        work: what a generation is.
        jobs: of a generation.
        idle_of: what ``idle_share`` is a share of, see `IDLE_OF`.
        idle_share: as asked for.
        idle_s: after each generation.
        dedicated_idle_share: as measured.
        shared_idle_share: as measured.
        dedicated_per_s: jobs of all experiments in a second.
        shared_per_s: the same.
        ratio: throughput of sharing over that of the dedicated workers in the same round.
        ratio_range: of the same.
        bound: what the ratio could be if nothing were lost and experiments never met.
        dedicated_processor_ms: processor time for a job, that of the experiments included, in milliseconds.
        shared_processor_ms: the same.
        rounds: of each way.
    """

    experiments: int
    workers: int
    work: str
    jobs: int
    idle_of: str
    idle_share: float
    idle_s: float
    dedicated_idle_share: float
    shared_idle_share: float
    dedicated_per_s: float
    shared_per_s: float
    ratio: float
    ratio_range: tuple[float, float]
    bound: float
    dedicated_processor_ms: float
    shared_processor_ms: float
    rounds: int

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _Took:
    """Mean lengths of an experiment's cycles and of the generations in them; processor time of a job of all."""

    cycle_s: float
    generation_s: float
    job_s: float


def idle_seconds(generation_s: float, experiments: int, idle_of: str, share: float) -> float:
    """How long an experiment idles after each generation.

    Args:
        generation_s: a generation on dedicated workers.
        experiments: how many share.
        idle_of: see `IDLE_OF`.
        share: of what that names.
    """
    alone_s = generation_s / experiments
    if idle_of == "dedicated":
        return share / (1 - share) * generation_s
    if idle_of == "alone" or share > 1 - 1 / experiments:  # the workers are not always busy
        return share / (1 - share) * alone_s
    return share * generation_s


def bound(generation_s: float, experiments: int, idle_s: float) -> float:
    """What sharing can gain at best.

    A cycle of an experiment lasts, on dedicated workers, a generation and the idle time. On all workers, a generation
    is shorter by the number of experiments; but within a cycle the workers must get all experiments' generations done.
    """
    return (generation_s + idle_s) / max(generation_s, generation_s / experiments + idle_s)


def bench_nested(
    work: Work,
    experiments: int,
    num_workers: int,
    idle: Sequence[tuple[str, float]],
    seconds: float,
    rounds: int,
    sharing: Sharing,
) -> list[NestedGain]:
    """Run experiments in processes of their own, on dedicated and on shared workers in turn.

    Args:
        work: of each generation.
        experiments: how many run at the same time.
        num_workers: that all have together; a multiple of ``experiments``.
        idle: what to idle a share of, and the share, for each result.
        seconds: of each run at least; five cycles of each experiment count even so.
        rounds: of each way.
        sharing: how workers are shared.

    Raises:
        WorkerError: an experiment or the server does not start, or fails.
    """
    assert num_workers % experiments == 0
    plan = _Plan(work.make_handler, work.jobs, num_workers // experiments, 0.0, seconds)
    calibration = _run("dedicated", plan, experiments, num_workers, sharing)
    generation_s = float(np.median([one.generation_s for one in calibration]))
    gains = []
    with tqdm(total=len(idle) * rounds, desc=f"{experiments} experiments", unit="round", disable=None) as progress:
        for idle_of, share in idle:
            idle_s = idle_seconds(generation_s, experiments, idle_of, share)
            longest_s = max(seconds, _CYCLES * (generation_s + idle_s))
            own = replace(plan, idle_s=idle_s, seconds=longest_s)
            took: dict[str, list[list[_Took]]] = {way: [] for way in WAYS}
            for turn in range(rounds):
                for way in WAYS if turn % 2 == 0 else WAYS[::-1]:
                    took[way].append(_run(way, own, experiments, num_workers, sharing))
                progress.update()
            limit = round(bound(generation_s, experiments, idle_s), 3)
            gains.append(_gain(work, experiments, num_workers, idle_of, share, round(idle_s, 3), limit, took))
    return gains


def _gain(
    work: Work,
    experiments: int,
    num_workers: int,
    idle_of: str,
    share: float,
    idle_s: float,
    limit: float,
    took: dict[str, list[list[_Took]]],
) -> NestedGain:
    """Put the rounds of both ways together."""
    rates = {way: [sum(len(work.jobs) / one.cycle_s for one in some) for some in took[way]] for way in WAYS}
    idled = {way: [np.mean([1 - one.generation_s / one.cycle_s for one in some]) for some in took[way]] for way in WAYS}
    costs = {way: [1e3 * some[0].job_s for some in took[way]] for way in WAYS}
    ratios = [ours / theirs for theirs, ours in zip(rates["dedicated"], rates["shared"], strict=True)]
    return NestedGain(
        experiments=experiments,
        workers=num_workers,
        work=work.name,
        jobs=len(work.jobs),
        idle_of=idle_of,
        idle_share=share,
        idle_s=idle_s,
        dedicated_idle_share=round(float(np.median(idled["dedicated"])), 3),
        shared_idle_share=round(float(np.median(idled["shared"])), 3),
        dedicated_per_s=round(float(np.median(rates["dedicated"])), 2),
        shared_per_s=round(float(np.median(rates["shared"])), 2),
        ratio=round(float(np.median(ratios)), 3),
        ratio_range=(round(min(ratios), 3), round(max(ratios), 3)),
        bound=limit,
        dedicated_processor_ms=round(float(np.median(costs["dedicated"])), 2),
        shared_processor_ms=round(float(np.median(costs["shared"])), 2),
        rounds=len(ratios),
    )


@contextmanager
def compile_work(toolchain: Toolchain, task: Task, settings: CompileConfig, sources: Sequence[Path]) -> Iterator[Work]:
    """Compiles of sources under networks with random weights, as evolution strategies ask for them."""
    with scratch_directory() as folder:
        front_end = FrontEnd(toolchain, settings, folder, task)
        modules = [front_end.module_of(path, folder / f"{number}.bc") for number, path in enumerate(sources)]
        header = probe_channel(toolchain, task, settings)
        features = tuple(spec.name for spec in header.features if spec.name != toolchain.quirks.default_slot)
        shape, scale = Architecture((len(features), 64, 64, 1)), np.ones(len(features), np.float32)
        jobs = []
        for candidate in range(_CANDIDATES):
            weights = generator(candidate, "bench", "nested").standard_normal(shape.num_params).astype(np.float32)
            policy = Policy(task.name, Normalisation(features, 0 * scale, scale), shape, weights)
            jobs += [CompileJob(module.name, module, policy) for module in modules]
        yield Work("compile", CompileWorkerSpec(toolchain, task.name, settings), tuple(jobs))


def waiting_work() -> Work:
    """Jobs that wait instead of computing: for more workers than there are cores."""
    lengths = generator(0, "bench", "nested", "waiting").uniform(0.03, 0.09, 32)
    return Work("wait", _make_waiter, tuple(round(float(one), 4) for one in lengths))


def _make_waiter() -> Callable[[float], float]:
    def wait(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    return wait


@dataclass(frozen=True)
class _Plan:
    """What one experiment does."""

    make_handler: MakeHandler
    jobs: tuple[Any, ...]
    num_workers: int
    idle_s: float
    seconds: float
    address: str = ""


def _run(way: str, plan: _Plan, experiments: int, num_workers: int, sharing: Sharing) -> list[_Took]:
    """Run all experiments once; for the shared way, on a nesting worker that is started and stopped."""
    with ExitStack() as stack:
        if way == "shared":
            folder = stack.enter_context(scratch_directory())
            address = stack.enter_context(_served(folder, num_workers, sharing))
            plan = replace(plan, address=address, num_workers=num_workers)
        program = "from benchmarks.nested import take_part; take_part()"
        processes = [
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(experiments)
        ]
        try:
            for process in processes:
                _tell(process, pickle.dumps(plan))
            for process in processes:
                _line(process, _START_S)
            before_s = _processor_s()
            for process in processes:
                _tell(process, b"go\n")
            for process in processes:
                _line(process, plan.seconds + _LONGEST_S)
            for process in processes:
                _tell(process, b"stop\n")
            cycles = [json.loads(_line(process, _LONGEST_S)) for process in processes]
            job_s = (_processor_s() - before_s) / sum(len(one) * len(plan.jobs) for one in cycles)
        finally:
            for process in processes:
                process.kill()
    end = min(one[-1][1] for one in cycles)  # from then on, somebody has stopped
    return [_took([(begun, done) for begun, done in one[_SETTLING:] if done <= end], job_s) for one in cycles]


def _processor_s() -> float:
    """Processor time of this process and its descendants so far, ended ones included, in seconds."""
    return sum(one.cpu_s for one in descendants(os.getpid()))


def _took(cycles: list[tuple[float, float]], job_s: float) -> _Took:
    ends = [done for _, done in cycles]
    if len(ends) < 2:
        raise WorkerError("no two generations of an experiment ended while all ran; give --seconds more")
    generation_s = float(np.mean([done - begun for begun, done in cycles[1:]]))
    return _Took((ends[-1] - ends[0]) / (len(ends) - 1), generation_s, job_s)


def _tell(process: "subprocess.Popen[bytes]", message: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(message)
    process.stdin.flush()


def _line(process: "subprocess.Popen[bytes]", within_s: float) -> bytes:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(within_s):
            raise WorkerError(f"an experiment has not ended a step within {within_s:g} s; is the machine busy?")
    if not (line := process.stdout.readline()):
        raise WorkerError(f"an experiment ended with exit code {process.wait()}; its message is above")
    return line


@contextmanager
def _served(folder: Path, num_workers: int, sharing: Sharing) -> Iterator[str]:
    """The address of a nesting worker on a cluster of its own."""
    program = "from benchmarks.nested import serve; serve(%r, %d, %d, %r)"
    program %= str(folder), num_workers, sharing.at_once, sharing.turn_s
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield _line(process, _START_S).decode().strip()
            _tell(process, b"stop\n")
            process.wait(_START_S)
        finally:
            process.kill()


def serve(folder: str, num_workers: int, at_once: int, turn_s: float) -> None:
    """Host a nesting worker until told to stop."""
    die_with_parent(parent=os.getppid())
    os.chdir(folder)  # apart from one that experiments of this working copy use
    with serve_workers("", num_workers, at_once=at_once, turn_s=turn_s) as served:
        print(served.address, flush=True)
        sys.stdin.buffer.readline()


def take_part() -> None:
    """Be one experiment: read a plan from standard input, and print at last when its generations began and ended."""
    die_with_parent(parent=os.getppid())
    plan: _Plan = pickle.load(sys.stdin.buffer)
    pool: Pool[Any, Any]
    if not plan.address:
        pool = Pool(LocalBackend(plan.make_handler), plan.num_workers)
    else:
        pool = Pool(NestedBackend(plan.address, plan.make_handler), plan.num_workers)
    with pool:
        _generation(pool, plan.jobs)
        print("ready", flush=True)
        sys.stdin.buffer.readline()
        end, enough = time.monotonic() + plan.seconds, False
        cycles: list[tuple[float, float]] = []
        while True:  # also after enough cycles: the others still need its company
            begun = time.monotonic()
            _generation(pool, plan.jobs)
            cycles.append((begun, time.monotonic()))
            if not enough and len(cycles) >= _SETTLING + _CYCLES and cycles[-1][1] >= end:
                enough = True
                print("enough", flush=True)
            if select.select([sys.stdin.buffer], [], [], plan.idle_s)[0]:
                break
        sys.stdin.buffer.readline()
        print(json.dumps(cycles), flush=True)
        sys.stdin.buffer.readline()  # its workers live until all have been looked at


def _generation(pool: Pool[Any, Any], jobs: Sequence[Any]) -> None:
    for _, result in pool.map(jobs):
        if isinstance(result, WorkerLost):
            raise WorkerError(f"a job was lost: {result}")
        if getattr(result, "failed", False):
            raise WorkerError(f"a compile failed: {result.message}")


def main() -> None:
    """Measure, and print a table for each number of experiments."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--experiments", type=positive, nargs="+", default=[2, 4], help="(default: 2 and 4)")
    parser.add_argument(
        "--idle", type=_share, nargs="+", default=[0.0, 0.25, 0.5, 0.75], help="idle shares (default: 0 0.25 0.5 0.75)"
    )
    parser.add_argument("--idle-of", choices=IDLE_OF, nargs="+", default=IDLE_OF, help="of what (default: of each)")
    parser.add_argument("--modules", type=positive, help="sources of DATA/sample to compile (default: all)")
    parser.add_argument("--wait", action="store_true", help="jobs that wait instead of compiling")
    parser.add_argument("--seconds", type=positive_float, default=20.0, help="of each run (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=5, help="of each way (default: %(default)s)")
    parser.add_argument("--at-once", type=positive, default=Sharing.at_once, help="see mlgo workers serve")
    parser.add_argument("--turn", type=not_negative_float, default=Sharing.turn_s, help="see mlgo workers serve")
    args = parser.parse_args()
    config, cores = read_config(args), len(os.sched_getaffinity(0))
    seconds, rounds, shares = (5.0, 1, [0.0, 0.5]) if args.quick else (args.seconds, args.rounds, args.idle)
    idle = [("dedicated", 0.0)] if 0.0 in shares else []
    idle += [(idle_of, share) for share in shares if share for idle_of in args.idle_of]
    sharing, records = Sharing(args.at_once, args.turn), []
    for experiments in args.experiments:
        with ExitStack() as stack:
            if args.wait or cores < experiments:
                work, workers = waiting_work(), experiments
            else:
                toolchain = find_toolchain(config.toolchain, config.target)
                sources = sorted(path for path in (args.data / "sample").rglob("*") if path.suffix in (".c", ".cpp"))
                sources = sources[: args.modules]
                work = stack.enter_context(compile_work(toolchain, get_task(config.task), config.compile, sources))
                workers = cores // experiments * experiments
            gains = bench_nested(work, experiments, workers, idle, seconds, rounds, sharing)
        records += [one.record() for one in gains]
        if not args.json:
            _print_gains(gains)
    if args.json:
        print(json.dumps(records, indent=2))


def _share(text: str) -> float:
    """Read a share below 1, for ``argparse``."""
    value = not_negative_float(text)
    if value >= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not below 1")
    return value


def _print_gains(gains: Sequence[NestedGain]) -> None:
    """A table of one number of experiments."""
    first = gains[0]
    print(f"{first.experiments} experiments, {first.workers} workers, {first.jobs} jobs a generation: {first.work}")
    print(
        "idle of     share  idle s  measured: dedicated  shared  jobs/s: dedicated  shared  ratio (range)"
        "           bound  processor ms a job: dedicated, shared"
    )
    for one in gains:
        low, high = one.ratio_range
        print(
            f"{one.idle_of:<10}  {one.idle_share:>5.2f}  {one.idle_s:>6.2f}  {one.dedicated_idle_share:>19.2f}"
            f"  {one.shared_idle_share:>6.2f}  {one.dedicated_per_s:>17.1f}  {one.shared_per_s:>6.1f}"
            f"  {one.ratio:.3f} ({low:.3f} to {high:.3f})  {one.bound:.3f}"
            f"  {one.dedicated_processor_ms:.1f}, {one.shared_processor_ms:.1f}"
        )


if __name__ == "__main__":
    run_benchmark("benchmarks.nested")
