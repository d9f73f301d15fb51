"""Simulated generations beside real ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.planning.cluster import Cluster, Placing
from benchmarks.planning.costs import UnitCosts
from benchmarks.planning.generations import Generation, Shape, drawn
from benchmarks.planning.simulation import simulate
from benchmarks.planning.workload import ModuleLoad, Workload


@dataclass(frozen=True)
class Seen:
    """A real generation.

    Attributes:
        modules: number of the module of each evaluation, int64 [num], in the order in which they were asked for.
        outcomes: number of its outcome, int64 [num].
        compile_s: wall time of its compile, float64 [num]; 0 where there was none.
        num_candidates: how many.
        seconds: wall time, the learner's step included.
    """

    modules: np.ndarray
    outcomes: np.ndarray
    compile_s: np.ndarray
    num_candidates: int
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """A run and its simulations; all times are sums over its generations, in seconds.

    Attributes:
        workers: of the run.
        generations: how many.
        measured_s: wall time.
        replayed_s: simulated, given each evaluation's outcome and compile time as they were.
        replayed_error: share by which a generation's time was missed that way, mean of the absolute values.
        drawn_s: simulated from the workload alone, mean over seeds; NaN where it was not asked for.
        drawn_worker_s: what workers then had to do; to be held against the processor time that they really took.
        compiled: real compiles.
        replayed_compiled: the same, replayed.
        drawn_compiled: the same, drawn; mean over seeds.
        slowdown: wall time of the real compiles over the processor time that such compiles take alone: above 1 where
            other programs had the cores, or cores share what they compute with.
    """

    workers: int
    generations: int
    measured_s: float
    replayed_s: float
    replayed_error: float
    drawn_s: float
    drawn_worker_s: float
    compiled: int
    replayed_compiled: int
    drawn_compiled: float
    slowdown: float


def compare(
    seen: Sequence[Seen],
    workers: int,
    modules: Sequence[ModuleLoad],
    costs: UnitCosts,
    workload: Workload | None,
    alone_s: np.ndarray,
    seeds: Sequence[int] = (0, 1, 2),
) -> Comparison:
    """Simulate a real run in two ways.

    Args:
        seen: its generations, all on the same modules.
        workers: that it had.
        modules: what its generations number, trees empty in the beginning.
        costs: of single steps.
        workload: the same modules, to draw generations of the same size from; None leaves that out.
        alone_s: processor time of a compile of each module, float64 [num_modules].
        seeds: of the draws.
    """
    cluster = Cluster(workers)
    replayed = simulate(modules, costs, cluster, Placing(), [_as_seen(seen)])
    measured = np.array([one.seconds for one in seen])
    error = np.abs(np.diff([0.0, *replayed.ends[0]]) / measured - 1.0).mean()
    courses = []
    if workload is not None:
        shape = Shape(seen[0].num_candidates, len(modules), len(seen))
        for seed in seeds:
            courses.append(simulate(workload.modules, costs, cluster, Placing(), [drawn(workload, shape, seed)]))
    compiled = [one.compile_s > 0.0 for one in seen]
    wall_s = sum(float(one.compile_s.sum()) for one in seen)
    cpu_s = sum(float(alone_s[one.modules[done]].sum()) for one, done in zip(seen, compiled, strict=True))
    return Comparison(
        workers,
        len(seen),
        float(measured.sum()),
        replayed.seconds,
        float(error),
        _mean([course.seconds for course in courses]),
        _mean([course.busy.worker for course in courses]),
        int(sum(done.sum() for done in compiled)),
        replayed.compiled,
        _mean([course.compiled for course in courses]),
        wall_s / max(1e-9, cpu_s),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _as_seen(seen: Sequence[Seen]) -> list[Generation]:
    """Generations as they were; an evaluation that was recalled would take the median of its outcome's or module's."""
    modules, outcomes, seconds = (
        np.concatenate([getattr(one, name) for one in seen]) for name in ("modules", "outcomes", "compile_s")
    )
    done = seconds > 0.0
    known: dict[int, float] = {}
    for module in np.unique(modules):
        mine = done & (modules == module)
        known[int(module)] = float(np.median(seconds[mine])) if mine.any() else 0.0
    filled = np.where(done, seconds, np.array([known[int(module)] for module in modules]))
    found, start = [], 0
    for one in seen:
        end = start + len(one.modules)
        found.append(Generation(one.modules, outcomes[start:end], filled[start:end], one.num_candidates))
        start = end
    return found
