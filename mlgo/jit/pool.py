"""Work on units in processes, each with a compiler of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mlgo.base.config import LOCAL_WORKERS, WorkersConfig
from mlgo.base.scratch import Closing
from mlgo.jit.cache import CachedCompiler, CompileCache, Findings, Outcomes
from mlgo.jit.compiler import ChoiceCompiler, CompilerSpec, Failed, Outcome, Request, Unit, compile_units
from mlgo.pool import Hint, Pool, WorkerLost, open_pool

Result = TypeVar("Result")

Work = Callable[[ChoiceCompiler, tuple[str, ...]], Sequence[Result]]
"""Something to find out about units that share compiles, with as few of them as it takes: a result for each unit. It is
sent to workers, so it is a function of a module, or a part of one."""

LOST = Failed("worker", "the worker died")
"""What becomes of a unit whose worker died, for whatever reason."""


@dataclass(frozen=True)
class _Order:
    """Work, with what is known of its units."""

    work: Work[Any]
    units: tuple[str, ...]
    known: dict[str, Outcomes]


@dataclass(frozen=True)
class _Delivery:
    """Its results, with what was not known before."""

    results: Sequence[Any]
    learned: dict[str, Outcomes]
    num_asked: int
    num_compiled: int


@dataclass(frozen=True)
class OpenCompiler:
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
            results = order.work(compiler, order.units)
            counts = compiler.num_asked - asked, compiler.num_compiles - compiled
            return _Delivery(results, compiler.learned(), *counts)

        return handle


class ChoicePool(Closing):
    """Workers that compile, and one cache of everything that any of them has found out.

    Results depend on the work alone, not on the number of workers or where they run: a compile is a pure function.

    Attributes:
        spec: how each worker opens its compiler.
        num_asked: outcomes that were asked for.
        num_compiled: compiles that were done for that: others were known, and units of a batch share them.

    Args:
        spec: how each worker opens its compiler.
        workers: how many, unless ``where`` says.
        where: kind of the workers, and where they run.
        cache: folder of what earlier runs have found out; None for this run's own memory.
    """

    def __init__(
        self, spec: CompilerSpec, workers: int, where: WorkersConfig = LOCAL_WORKERS, cache: Path | None = None
    ) -> None:
        self.spec, self._cache = spec, CompileCache(cache, spec.key())
        self._pool: Pool[_Order, _Delivery] = open_pool(where, workers, OpenCompiler(spec))
        self.num_asked = self.num_compiled = 0

    @property
    def num_workers(self) -> int:
        """Workers that compile."""
        return self._pool.num_workers

    def map(
        self,
        work: Work[Result],
        batches: Sequence[tuple[str, ...]],
        done: Callable[[int], object] = lambda num_units: None,
    ) -> dict[str, Result]:
        """Find something out about units; gives results by unit, without those of a batch whose worker died."""
        results: dict[str, Result] = {}
        for position, delivery in self._pool.map((self._order(work, units) for units in batches), _hint):
            units = batches[position]
            if not isinstance(delivery, WorkerLost):
                self.keep(delivery.learned)
                self.num_asked += delivery.num_asked
                self.num_compiled += delivery.num_compiled
                results |= dict(zip(units, delivery.results, strict=True))
            done(len(units))
        return {unit: results[unit] for units in batches for unit in units if unit in results}

    def keep(self, learned: Mapping[str, Outcomes]) -> None:
        """Put outcomes into the cache; what is known already must be the same."""
        found: dict[str, Findings] = {}
        for unit, outcomes in learned.items():
            content, base = self.spec.place(unit)
            found.setdefault(content, Findings()).outcomes[unit.removeprefix(base)] = outcomes
        for content, findings in found.items():
            if findings:
                self._cache.add(content, findings)

    def _order(self, work: Work[Any], units: tuple[str, ...]) -> _Order:
        known: dict[str, Outcomes] = {}
        for content, base in dict.fromkeys(map(self.spec.place, units)):
            findings = self._cache.findings(content)
            known |= {base + part: outcomes for part, outcomes in findings.outcomes.items()}
        return _Order(work, units, known)

    def close(self) -> None:
        """End all workers and their compilers."""
        self._pool.close()


class PooledCompiler(ChoiceCompiler):
    """A compiler whose compiles are done by a pool: what any worker or an earlier run has found out is known to it.

    Attributes:
        ordered: as the pool's compiler.
        static: as the pool's compiler.

    Args:
        pool: compiles; whoever opened it closes it.
    """

    def __init__(self, pool: ChoicePool) -> None:
        self._pool, self.ordered, self.static = pool, pool.spec.ordered, pool.spec.static

    @property
    def num_compiles(self) -> int:  # type: ignore[override]
        """Compiles that the pool has done."""
        return self._pool.num_compiled

    def units(self) -> Sequence[Unit]:
        """None: whoever has a pool knows the units."""
        return ()

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        return [
            self._pool.map(partial(compile_units, choices=(decisions,)), [(unit,)]).get(unit, [LOST])[0]
            for unit, decisions in requests
        ]


def _hint(order: _Order) -> Hint:
    return Hint(next(iter(order.units), ""))
