"""How many evaluations a second each shared part can do at most, and how many cores that keeps busy."""

from dataclasses import dataclass

from benchmarks.planning.cluster import Cluster
from benchmarks.planning.costs import UnitCosts
from benchmarks.planning.simulation import Course

_FOREVER = float("inf")


@dataclass(frozen=True)
class Limit:
    """One part.

    Attributes:
        part: which.
        per_s: evaluations a second; infinite where it does not limit at all.
        cores: workers that so many evaluations keep busy.
    """

    part: str
    per_s: float
    cores: float


def limits(course: Course, costs: UnitCosts, cluster: Cluster, num_modules: int) -> list[Limit]:
    """Work out the limits for evaluations like those of a simulation; the lowest comes first.

    Args:
        course: tells how long an evaluation keeps a worker busy, how often it compiles, what it reads, and how many
            share a message.
        costs: of single steps.
        cluster: drivers, network and store.
        num_modules: of a generation; each has a file with a lock of its own.
    """
    asked = max(1, course.asked)
    driver_s = costs.driver_task_s(asked / max(1, course.messages))
    misses, store = course.compiled / asked, cluster.store
    worker_s = course.busy.worker / asked
    operations = store.recall_operations + misses * store.keep_operations
    rates = {
        "driver": _over(cluster.drivers, driver_s),
        "network": cluster.drivers * _over(cluster.network.bytes_per_s, max(costs.job_bytes, costs.result_bytes)),
        "store: operations": _over(store.operations_per_s, operations),
        "store: bytes": _over(store.bytes_per_s, course.read_bytes / asked),
        "store: locks": _over(num_modules, misses * (costs.keep_s + store.keep_operations * store.operation_s)),
    }
    found = [Limit(part, rate, rate * worker_s if rate < _FOREVER else _FOREVER) for part, rate in rates.items()]
    return sorted(found, key=lambda one: one.per_s)


def _over(total: float, each: float) -> float:
    return total / each if each > 0.0 else _FOREVER


def lower_bound(
    work_s: float, longest_s: float, cores: int, num_tasks: int, driver_task_s: float, drivers: int
) -> float:
    """Time below which no schedule can do some work.

    Args:
        work_s: of all tasks together.
        longest_s: of the longest.
        cores: that share it.
        num_tasks: that the drivers handle.
        driver_task_s: what one of them costs its driver.
        drivers: that share them.
    """
    return max(work_s / cores, longest_s, num_tasks * driver_task_s / drivers)
