"""Work on units in processes, each with a compiler of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from mlgo.cse.memory import Known, RememberingCompiler
from mlgo.cse.problem import CompilerSpec, CseCompiler, Decisions, Failed, Outcome
from mlgo.workers.local import LocalPool, WorkerLost

Result = TypeVar("Result")
ResultType = TypeVar("ResultType", covariant=True)


class UnitJob(Protocol[ResultType]):
    """Something to find out about one unit.

    Attributes:
        unit: its name.
    """

    unit: str

    def __call__(self, compiler: CseCompiler) -> ResultType:
        """Do it, with as many compiles as it takes."""
        ...


@dataclass(frozen=True)
class _Order:
    """A job, with what is known of its unit."""

    job: Any
    known: dict[Decisions | None, Outcome]


@dataclass(frozen=True)
class _Delivery(Generic[Result]):
    """Its result, with what was not known before."""

    result: Result
    learned: dict[Decisions | None, Outcome]
    num_asked: int


class CsePool:
    """Workers that compile, and one memory of everything that any of them has found out.

    Results depend on jobs alone, not on the number of workers: a compile is a pure function.

    Attributes:
        num_asked: compiles that jobs have asked for.
        num_compiled: of these, done: the others were known.

    Args:
        spec: how each worker opens its compiler.
        workers: processes.
    """

    def __init__(self, spec: CompilerSpec, workers: int) -> None:
        self._pool: LocalPool[_Order, Any] = LocalPool(workers, partial(_handler, spec))
        self._known: dict[str, dict[Decisions | None, Outcome]] = {}
        self.num_asked = self.num_compiled = 0

    def map(
        self,
        jobs: Sequence[UnitJob[Result]],
        done: Callable[[int], None] = lambda number: None,
    ) -> list[Result | None]:
        """Do jobs, and return their results in their order; None for one whose worker died.

        Args:
            jobs: of which those of different units run side by side; those of one unit had better be one job.
            done: called with the number of each job when it has ended.

        Raises:
            Exception: whatever a job raised; such an exception is a defect or a mistake of the user.
        """
        results: list[Result | None] = [None] * len(jobs)
        orders = (_Order(job, self._known.get(job.unit, {})) for job in jobs)
        for position, delivery in self._pool.map(orders):
            if not isinstance(delivery, WorkerLost):
                self._known.setdefault(jobs[position].unit, {}).update(delivery.learned)
                self.num_asked += delivery.num_asked
                self.num_compiled += len(delivery.learned)
                results[position] = delivery.result
            done(position)
        return results

    def learn(self, unit: str, known: Known) -> None:
        """Take over what an earlier run has found out."""
        self._known.setdefault(unit, {}).update(known)

    def known(self, unit: str) -> Known:
        """All outcomes of a unit so far."""
        return self._known.get(unit, {})

    def close(self) -> None:
        """End all workers and their compilers."""
        self._pool.close()

    def __enter__(self) -> "CsePool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _handler(spec: CompilerSpec) -> Callable[[_Order], _Delivery[Any]]:
    compiler = RememberingCompiler(spec.open())

    def handle(order: _Order) -> _Delivery[Any]:
        asked = compiler.num_asked
        compiler.forget()  # the pool's memory is the one that counts, and the only one that grows
        compiler.learn(order.job.unit, order.known)
        result = order.job(compiler)
        learned = {
            decisions: outcome
            for decisions, outcome in compiler.known(order.job.unit).items()
            if decisions not in order.known and not _passing(outcome)
        }
        return _Delivery(result, learned, compiler.num_asked - asked)

    return handle


def _passing(outcome: Outcome) -> bool:
    """Whether another try may come out otherwise: a deadline depends on the machine's load."""
    return isinstance(outcome, Failed) and outcome.kind in ("timeout", "memory", "crashed")
