"""Work on units in processes, each with a compiler of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

from mlgo.core.config import LOCAL_WORKERS, WorkersConfig
from mlgo.execution import Hint, Pool, WorkerLost, open_pool
from mlgo.problems.subset.cache import CachedCompiler, CompileCache, Findings, Outcomes
from mlgo.problems.subset.compiler import ChoiceCompiler, CompilerSpec

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

    def __call__(self, compiler: ChoiceCompiler) -> Sequence[ResultType]:
        """Do it, with as few compiles as it takes; a result for each unit."""
        ...


@dataclass(frozen=True)
class _Order:
    """A job, with what is known of its units.

    Attributes:
        job: what to do.
        known: outcomes by unit, those of other units of the same batches included.
        notes: of each batch, by one of its units; None where there are none yet.
    """

    job: Any
    known: dict[str, Outcomes]
    notes: dict[str, Any]


@dataclass(frozen=True)
class _Delivery:
    """Its results, with what was not known before."""

    results: Sequence[Any]
    learned: dict[str, Outcomes]
    notes: dict[str, Any]
    num_asked: int
    num_compiled: int


@dataclass(frozen=True)
class MakeChooser:
    """How a worker becomes one that compiles under choices; sent to it once.

    Attributes:
        spec: how it opens its compiler.
    """

    spec: CompilerSpec

    def check(self) -> None:
        """See that the compiler works on this machine; raises `MlgoError`."""
        self.spec.check()

    def __call__(self) -> Callable[[_Order], _Delivery]:
        """Open the compiler."""
        compiler = CachedCompiler(self.spec.open())

        def handle(order: _Order) -> _Delivery:
            asked, compiled = compiler.num_asked, compiler.num_compiles
            compiler.begin(order.known)  # the driver's cache is the one that counts, and the only one that grows
            for unit, notes in order.notes.items():
                if notes is not None:
                    compiler.take_notes(unit, notes)
            results = order.job(compiler)
            notes = {unit: compiler.notes(unit) for unit, known in order.notes.items() if known is None}
            counts = compiler.num_asked - asked, compiler.num_compiles - compiled
            return _Delivery(results, compiler.learned(), notes, *counts)

        return handle


class CsePool:
    """Workers that compile, and one cache of everything that any of them has found out.

    Results depend on jobs alone, not on the number of workers or where they run: a compile is a pure function.

    Attributes:
        num_asked: outcomes that jobs have asked for.
        num_compiled: compiles that were done for that: others were known, and units of a batch share them.

    Args:
        spec: how each worker opens its compiler.
        workers: how many, unless ``where`` says.
        where: kind of the workers, and where they run.
        cache: folder of what earlier runs have found out; None for this run's own memory.

    Raises:
        WorkerError: there are no such workers.
    """

    def __init__(
        self, spec: CompilerSpec, workers: int, where: WorkersConfig = LOCAL_WORKERS, cache: Path | None = None
    ) -> None:
        self._spec, self._cache = spec, CompileCache(cache, spec.key())
        self._pool: Pool[_Order, _Delivery] = open_pool(where, workers, MakeChooser(spec))
        self.num_asked = self.num_compiled = 0

    @property
    def num_workers(self) -> int:
        """Workers that compile."""
        return self._pool.num_workers

    def each(self, jobs: Sequence[BatchJob[Result]]) -> Iterator[tuple[int, Sequence[Result] | WorkerLost]]:
        """Do jobs, and yield their positions and results as they end.

        Args:
            jobs: run side by side; units of one batch had better be in one job.

        Raises:
            Exception: whatever a job raised; such an exception is a defect or a mistake of the user.
            ArtifactError: what earlier runs have found out is damaged, or cannot be kept.
        """
        for position, delivery in self._pool.map((self._order(job) for job in jobs), _hint):
            if isinstance(delivery, WorkerLost):
                yield position, delivery
                continue
            self._keep(delivery)
            self.num_asked += delivery.num_asked
            self.num_compiled += delivery.num_compiled
            yield position, delivery.results

    def map(
        self, jobs: Sequence[BatchJob[Result]], done: Callable[[int], object] = lambda num_units: None
    ) -> dict[str, Result]:
        """The same, with results by unit; those of a job whose worker died are missing.

        Args:
            jobs: run side by side; units of one batch had better be in one job.
            done: called with the number of its units when a job has ended.
        """
        results: dict[str, Result] = {}
        for position, found in self.each(jobs):
            units = jobs[position].units
            if not isinstance(found, WorkerLost):
                results |= dict(zip(units, found, strict=True))
            done(len(units))
        return {unit: results[unit] for job in jobs for unit in job.units if unit in results}

    def _order(self, job: BatchJob[Any]) -> _Order:
        known: dict[str, Outcomes] = {}
        notes: dict[str, Any] = {}
        places = {place: unit for unit in reversed(job.units) for place in [self._spec.place(unit)]}
        for (content, base), unit in places.items():
            findings = self._cache.findings(content)
            known |= {base + part: outcomes for part, outcomes in findings.outcomes.items()}
            notes[unit] = findings.notes
        return _Order(job, known, notes)

    def _keep(self, delivery: _Delivery) -> None:
        learned: dict[str, Findings] = {}
        for unit, outcomes in delivery.learned.items():
            content, base = self._spec.place(unit)
            learned.setdefault(content, Findings()).outcomes[unit.removeprefix(base)] = outcomes
        for unit, notes in delivery.notes.items():
            learned.setdefault(self._spec.place(unit).content, Findings()).notes = notes
        for content, findings in learned.items():
            if findings:
                self._cache.add(content, findings)

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


def _hint(order: _Order) -> Hint:
    return Hint(next(iter(order.notes), ""))
