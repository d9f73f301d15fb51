"""Work on units in processes, each with a compiler of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

from mlgo.execution import LocalPool, WorkerLost
from mlgo.problems.subset.compiler import CompilerSpec, CseCompiler, Decisions, Failed, Outcome
from mlgo.problems.subset.memory import RememberingCompiler

Result = TypeVar("Result")
ResultType = TypeVar("ResultType", covariant=True)


class BatchJob(Protocol[ResultType]):
    """Something to find out about the units of a batch.

    Attributes:
        units: their names.
    """

    @property
    def units(self) -> tuple[str, ...]:
        """See the class."""
        ...

    def __call__(self, compiler: CseCompiler) -> Sequence[ResultType]:
        """Do it, with as few compiles as it takes; a result for each unit."""
        ...


@dataclass(frozen=True)
class _Order:
    """A job, with what is known of its units."""

    job: Any
    known: dict[str, dict[Decisions | None, Outcome]]


@dataclass(frozen=True)
class _Delivery:
    """Its results, with what was not known before."""

    results: Sequence[Any]
    learned: dict[str, dict[Decisions | None, Outcome]]
    num_asked: int
    num_compiled: int


class CsePool:
    """Workers that compile, and one memory of everything that any of them has found out.

    Results depend on jobs alone, not on the number of workers: a compile is a pure function.

    Attributes:
        num_asked: outcomes that jobs have asked for.
        num_compiled: compiles that were done for that: others were known, and units of a batch share them.

    Args:
        spec: how each worker opens its compiler.
        workers: processes.
    """

    def __init__(self, spec: CompilerSpec, workers: int) -> None:
        self._pool: LocalPool[_Order, Any] = LocalPool(workers, partial(_handler, spec))
        self._known: dict[str, dict[Decisions | None, Outcome]] = {}
        self.num_asked = self.num_compiled = 0

    def map(
        self, jobs: Sequence[BatchJob[Result]], done: Callable[[int], object] = lambda num_units: None
    ) -> dict[str, Result]:
        """Do jobs, and return results by unit; those of a job whose worker died are missing.

        Args:
            jobs: run side by side; units of one batch had better be in one job.
            done: called with the number of its units when a job has ended.

        Raises:
            Exception: whatever a job raised; such an exception is a defect or a mistake of the user.
        """
        results: dict[str, Result] = {}
        orders = (_Order(job, {unit: self._known.get(unit, {}) for unit in job.units}) for job in jobs)
        for position, delivery in self._pool.map(orders):
            units = jobs[position].units
            if not isinstance(delivery, WorkerLost):
                for unit, learned in delivery.learned.items():
                    self._known.setdefault(unit, {}).update(learned)
                self.num_asked += delivery.num_asked
                self.num_compiled += delivery.num_compiled
                results |= dict(zip(units, delivery.results, strict=True))
            done(len(units))
        return {unit: results[unit] for job in jobs for unit in job.units if unit in results}

    def close(self) -> None:
        """End all workers and their compilers."""
        self._pool.close()

    def __enter__(self) -> "CsePool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def batches(units: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Names of units by batch; a unit without one is its own.

    Args:
        units: batch of each unit, empty for none.
    """
    found: dict[str, list[str]] = {}
    for name, batch in units.items():
        found.setdefault(f"batch {batch}" if batch else f"unit {name}", []).append(name)
    return [tuple(names) for names in found.values()]


def _handler(spec: CompilerSpec) -> Callable[[_Order], _Delivery]:
    compiler = RememberingCompiler(spec.open())

    def handle(order: _Order) -> _Delivery:
        asked, compiled = compiler.num_asked, compiler.num_compiles
        compiler.forget()  # the pool's memory is the one that counts, and the only one that grows
        for unit, known in order.known.items():
            compiler.learn(unit, known)
        results = order.job(compiler)
        learned = {
            unit: {
                decisions: outcome
                for decisions, outcome in compiler.known(unit).items()
                if decisions not in known and not _passing(outcome)
            }
            for unit, known in order.known.items()
        }
        return _Delivery(results, learned, compiler.num_asked - asked, compiler.num_compiles - compiled)

    return handle


def _passing(outcome: Outcome) -> bool:
    """Whether another try may come out otherwise.

    A deadline depends on the machine's load, and what is quarantined was not tried: other decisions ended processes of
    this worker.
    """
    return isinstance(outcome, Failed) and outcome.kind in ("timeout", "memory", "crashed", "quarantined")
