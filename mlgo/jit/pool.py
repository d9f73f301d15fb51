"""Work on units in processes, each with a JIT of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from mlgo.base.config import LOCAL_WORKERS, CseConfig, ReplayConfig, Settings, WorkersConfig
from mlgo.base.scratch import Closing, shared_folder
from mlgo.errors import ConfigError
from mlgo.jit import JIT_CSE
from mlgo.jit.cache import CachedCompiler, CompileCache
from mlgo.jit.client import SuperPmiClient
from mlgo.jit.compiler import ChoiceCompiler, SuperPmiSpec, compile_each
from mlgo.jit.outcome import Decisions, Failed, Outcome, Outcomes
from mlgo.pool import Hint, Pool, WorkerLost, open_pool
from mlgo.pool.records import known_compiles

Result = TypeVar("Result")

Work = Callable[[ChoiceCompiler, str], Result]
"""Something to find out about a unit with as few compiles as it takes. It is sent to workers, so it is a function of a
module, or a part of one."""

LOST = Failed("worker", "the worker died")
"""What becomes of a unit whose worker died, for whatever reason."""


@dataclass(frozen=True)
class _Order:
    """Work, with what is known of its unit."""

    work: Work[Any]
    unit: str
    known: Outcomes


@dataclass(frozen=True)
class _Delivery:
    """Its result, with what was not known before, by unit."""

    result: Any
    learned: dict[str, Outcomes]
    num_asked: int
    num_compiled: int


@dataclass(frozen=True)
class OpenCompiler:
    """How a worker becomes one that compiles under choices; sent to it once."""

    spec: SuperPmiSpec

    def check(self) -> None:
        """See that the compiler works on this machine; raises `MlgoError`."""
        self.spec.check()

    def __call__(self) -> Callable[[_Order], _Delivery]:
        """Open the compiler."""
        return partial(_deliver, self.spec.open())


def _deliver(compiler: SuperPmiClient, order: _Order) -> _Delivery:
    compiler.forget()  # so that results do not depend on earlier orders
    cached = CachedCompiler(compiler, {order.unit: order.known})
    result = order.work(cached, order.unit)
    return _Delivery(result, cached.learned, cached.num_asked, cached.num_compiled)


class ChoicePool(Closing):
    """Workers that compile, and one cache of everything that any of them has found out.

    Results depend on the work alone, not on the number of workers or where they run: a compile is a pure function.

    Attributes:
        num_asked: outcomes that were asked for.
        num_compiled: compiles that were done for that: others were known.

    Args:
        spec: how each worker opens its compiler.
        workers: how many, unless ``where`` says.
        cache: folder of what earlier runs have found out; None for this run's own memory.
    """

    def __init__(
        self, spec: SuperPmiSpec, workers: int, where: WorkersConfig = LOCAL_WORKERS, cache: Path | None = None
    ) -> None:
        self.spec, self._cache = spec, CompileCache(cache, spec.key())
        self._pool: Pool[_Order, _Delivery] = open_pool(where, workers, OpenCompiler(spec))
        self.num_asked = self.num_compiled = 0

    @staticmethod
    def of(settings: Settings, workers: int, where: WorkersConfig, work: Path) -> "ChoicePool":
        """The pool of a stage that compiles under choices; ``work`` has what earlier runs have found out."""
        task = settings.value("task")
        if task != JIT_CSE.name:
            raise ConfigError(f"task {task} does not choose among candidates; its compiles ask questions")
        spec = SuperPmiSpec.of(settings.section("cse", CseConfig).superpmi)
        known = known_compiles(shared_folder(work) / "replay", settings.section("replay", ReplayConfig))
        return ChoicePool(spec, workers, where, known)

    @property
    def num_workers(self) -> int:
        """Workers that compile."""
        return self._pool.num_workers

    def map(self, work: Work[Result], units: Sequence[str], label: str = "") -> dict[str, Result]:
        """Find something out about units; gives results by unit, without those whose worker died.

        With a ``label``, a progress bar shows it.
        """
        results: dict[str, Result] = {}
        orders = (_Order(work, unit, self._cache.outcomes(unit)) for unit in units)
        deliveries = self._pool.map(orders, lambda order: Hint(order.unit))
        disable = None if label else True
        for position, delivery in tqdm(deliveries, label, len(units), unit="unit", disable=disable):
            if not isinstance(delivery, WorkerLost):
                self.store(delivery.learned)
                self.num_asked += delivery.num_asked
                self.num_compiled += delivery.num_compiled
                results[units[position]] = delivery.result
        return {unit: results[unit] for unit in units if unit in results}

    def store(self, learned: Mapping[str, Outcomes]) -> None:
        """Put outcomes into the cache; what is known already must be the same."""
        for unit, outcomes in learned.items():
            self._cache.add(unit, outcomes)

    def outcome(self, unit: str, decisions: Decisions | None) -> Outcome:
        """See `ChoiceCompiler`; one at a time."""
        return self.map(partial(compile_each, choices=(decisions,)), [unit]).get(unit, [LOST])[0]

    def close(self) -> None:
        """End all workers and their compilers."""
        self._pool.close()
