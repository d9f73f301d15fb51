"""Trainings on clusters, and what came of them: one record for each combination."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.planning.cluster import Cluster, Placing
from benchmarks.planning.costs import UnitCosts
from benchmarks.planning.generations import Shape, drawn
from benchmarks.planning.limits import Limit, limits
from benchmarks.planning.simulation import Busy, Course, simulate
from benchmarks.planning.workload import Workload
from mlgo.errors import MlgoError
from mlgo.pool import LocalBackend, Pool, WorkerLost
from mlgo.pool.nested import NestedBackend
from mlgo.pool.schedule import Hint

ALL_PLACINGS = (
    Placing(affinity=False, large_first=False),
    Placing(affinity=False),
    Placing(stealing=False),
    Placing(large_first=False),
    Placing(),
)
"""Arrival order; large first; affinity alone; affinity with stealing; all three."""


@dataclass(frozen=True)
class Scenario:
    """One combination.

    Attributes:
        cluster: what it runs on.
        placing: how the drivers schedule.
        shape: of each training.
        trainings: how many there are.
        shared: all trainings use all workers, as nested ones; otherwise each has its part of them.
        seed: of what is drawn.
        thinks_s: what the learner's step takes, in seconds; None for what was measured.
    """

    cluster: Cluster
    placing: Placing
    shape: Shape
    trainings: int = 1
    shared: bool = True
    seed: int = 0
    thinks_s: float | None = None

    @property
    def num_evaluations(self) -> int:
        """What the simulation goes through."""
        return self.trainings * self.shape.generations * self.shape.candidates * self.shape.modules


@dataclass(frozen=True)
class Result:
    """What came of a scenario.

    Attributes:
        scenario: which.
        generation_s: wall time of a generation, the learner's step included; mean over all but the first.
        first_s: of the first, which begins with empty trees.
        utilisation: share of the workers' time in which they had work in hand.
        compiling: share in which a compiler ran.
        waiting: share in which they waited for a lock or the file server.
        hit_share: evaluations that the trees knew.
        repeated_share: compiles whose outcome somebody was compiling already.
        in_message: evaluations in a message, mean.
        driver: share of the drivers' time in which they were at work.
        server: the same for the file server.
        link: and for the drivers' links.
        lock: and for the most wanted lock.
        limits: of the shared parts, lowest first.
    """

    scenario: Scenario
    generation_s: float
    first_s: float
    utilisation: float
    compiling: float
    waiting: float
    hit_share: float
    repeated_share: float
    in_message: float
    driver: float
    server: float
    link: float
    lock: float
    limits: tuple[Limit, ...]

    @property
    def busiest(self) -> str:
        """What had least time to spare: what limits it, if that is near 1."""
        shares = {
            "workers": self.utilisation,
            **{name: getattr(self, name) for name in ("driver", "server", "link", "lock")},
        }
        return max(shares, key=lambda name: shares[name])

    def record(self) -> dict[str, Any]:
        """As plain values; what is unlimited is None."""
        finite = [
            {"part": one.part, "per_s": one.per_s, "cores": one.cores} for one in self.limits if one.per_s < np.inf
        ]
        values = {one.name: getattr(self, one.name) for one in fields(self)[1:-1]}
        scenario = self.scenario
        return {
            "cores": scenario.cluster.cores,
            "candidates": scenario.shape.candidates,
            "modules": scenario.shape.modules,
            "generations": scenario.shape.generations,
            "placing": str(scenario.placing),
            "drivers": scenario.cluster.drivers,
            "most": scenario.cluster.most,
            "trainings": scenario.trainings,
            "shared": scenario.shared,
            "thinks_s": scenario.thinks_s,
            **{name: round(value, 6) for name, value in values.items()},
            "busiest": self.busiest,
            "limits": finite,
        }


def run_scenario(workload: Workload, costs: UnitCosts, scenario: Scenario) -> Result:
    """Simulate one."""
    cluster, parts = scenario.cluster, 1 if scenario.shared else scenario.trainings
    if not scenario.shared:
        cluster = replace(cluster, cores=max(1, cluster.cores // parts))
    elif scenario.trainings > 1:
        cluster = replace(cluster, drivers=scenario.trainings)
    if scenario.thinks_s is not None:
        costs = replace(costs, update_s=scenario.thinks_s, update_candidate_s=0.0)
    groups = np.array_split(np.arange(scenario.trainings), parts)
    courses = [
        simulate(
            workload.modules,
            costs,
            cluster,
            scenario.placing,
            [drawn(workload, scenario.shape, scenario.seed, str(number)) for number in group],
        )
        for group in groups
    ]
    return _result(scenario, costs, cluster, courses)


def _result(scenario: Scenario, costs: UnitCosts, cluster: Cluster, courses: Sequence[Course]) -> Result:
    durations = np.array([np.diff([0.0, *ends]) for course in courses for ends in course.ends])
    steady = durations[:, 1:] if durations.shape[1] > 1 else durations
    time_s = sum(course.seconds for course in courses)  # of all parts, so shares are means over them
    busy = Busy(*(sum(values) for values in zip(*(asdict(course.busy).values() for course in courses), strict=True)))
    asked, compiled = (sum(getattr(course, name) for course in courses) for name in ("asked", "compiled"))
    workers_s = time_s * cluster.cores
    return Result(
        scenario,
        float(steady.mean()),
        float(durations[:, 0].mean()),
        busy.worker / workers_s,
        busy.compiling / workers_s,
        busy.waiting / workers_s,
        1.0 - compiled / max(1, asked),
        sum(course.repeated for course in courses) / max(1, compiled),
        asked / max(1, sum(course.messages for course in courses)),
        busy.driver / time_s / cluster.drivers,
        busy.server / time_s,
        busy.link / time_s / cluster.drivers,
        busy.lock / time_s,
        tuple(limits(courses[0], costs, cluster, scenario.shape.modules)),
    )


def run_all(
    workload: Workload,
    costs: UnitCosts,
    scenarios: Sequence[Scenario],
    jobs: int,
    progress: Callable[[Scenario], object] = lambda scenario: None,
) -> list[Result]:
    """Simulate many, several at a time; results in their order.

    Args:
        workload: what is drawn from.
        costs: of single steps.
        scenarios: what to simulate.
        jobs: processes.
        progress: told what is done.

    Raises:
        MlgoError: a process died, most likely for lack of memory.
    """
    found: dict[int, Result] = {}
    with Pool[Scenario, Result](LocalBackend(partial(_make_handler, workload, costs)), jobs) as pool:
        for position, result in pool.map(scenarios, lambda one: Hint(cost=one.num_evaluations)):
            if isinstance(result, WorkerLost):
                raise MlgoError(f"a simulation of {scenarios[position].shape} has died ({result}); lower --jobs")
            found[position] = result
            progress(scenarios[position])
    return [found[i] for i in range(len(scenarios))]


def _make_handler(workload: Workload, costs: UnitCosts) -> Callable[[Scenario], Result]:
    return partial(run_scenario, workload, costs)


def placings(clusters: Iterable[Cluster], shapes: Sequence[Shape], seed: int) -> Iterator[Scenario]:
    """One training with every way to schedule it."""
    for cluster in clusters:
        for shape in shapes:
            for placing in ALL_PLACINGS:
                yield Scenario(cluster, placing, shape, seed=seed)


def nested(
    clusters: Iterable[Cluster],
    shapes: Sequence[Shape],
    counts: Sequence[int],
    thinks: Sequence[float | None],
    seed: int,
) -> Iterator[Scenario]:
    """Several trainings, each with its part of the cores and local workers, and all on all of them as nested ones."""
    for cluster in clusters:
        for shape in shapes:
            for count, thinks_s, shared in product(counts, thinks, (False, True)):
                depth = NestedBackend.depth if shared else LocalBackend.depth
                yield Scenario(replace(cluster, depth=depth), Placing(), shape, count, shared, seed, thinks_s)


def relieved(
    clusters: Iterable[Cluster], shapes: Sequence[Shape], ways: Sequence[tuple[int, int]], seed: int
) -> Iterator[Scenario]:
    """One training in other ways, each a number of drivers and of jobs in a message at most."""
    for cluster in clusters:
        for shape in shapes:
            for drivers, most in ways:
                yield Scenario(replace(cluster, drivers=drivers, most=most), Placing(), shape, seed=seed)
