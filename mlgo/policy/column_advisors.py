"""Advisors without weights for questions that are answered by a legal column."""

from dataclasses import dataclass

import numpy as np

from mlgo.core.seeding import generator
from mlgo.policy.advisors import answer_dtype
from mlgo.policy.column_policy import Columns
from mlgo.tasks import Decide, Responder
from mlgo.tasks.regalloc_evict import BROKEN_HINTS, DENSITY
from mlgo.wire.log import Header


@dataclass(frozen=True)
class LightestAdvisor:
    """Evicts what is lighter than the value that asks; nothing where nothing is.

    Of the legal columns whose heaviest range is lighter, it takes those that break the fewest hints, of these the
    lightest, of equal ones the first. So does LLVM's own eviction (``EvictionCost``, ``shouldEvict``,
    llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp), but for what it knows of hints, splits and cascades.
    """

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        columns = Columns((DENSITY, BROKEN_HINTS), header)

        def decide(payloads: np.ndarray) -> np.ndarray:
            legal, values = columns.legal(payloads), columns.values(payloads)
            weights, hints = values[..., 0], values[..., 1]
            own = np.where(legal[:, -1:], weights[:, -1:], np.inf)  # illegal there: it must have a register
            lighter = legal & (weights < own)
            hints = np.where(lighter, hints, np.inf)
            best = lighter & (hints == hints.min(axis=1, keepdims=True))
            columns_of_best = np.where(best, weights, np.inf).argmin(axis=1)
            return np.where(lighter.any(axis=1), columns_of_best, legal.shape[1] - 1)

        return decide

    def respond_to(self, header: Header) -> Responder:
        """The same, one by one."""
        return _one_by_one(self.decide_for(header), header)


@dataclass(frozen=True)
class FirstLegalAdvisor:
    """Takes the first legal column: the register that comes first in the allocation order."""

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        columns = Columns((), header)
        return lambda payloads: columns.legal(payloads).argmax(axis=1)

    def respond_to(self, header: Header) -> Responder:
        """The same, one by one."""
        return _one_by_one(self.decide_for(header), header)


@dataclass(frozen=True)
class LastLegalAdvisor:
    """Takes the last legal column: evicts nothing where it may."""

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        columns = Columns((), header)
        return lambda payloads: columns.num_columns - 1 - columns.legal(payloads)[:, ::-1].argmax(axis=1)

    def respond_to(self, header: Header) -> Responder:
        """The same, one by one."""
        return _one_by_one(self.decide_for(header), header)


@dataclass(frozen=True)
class RandomLegalAdvisor:
    """Takes each legal column with the same probability.

    Attributes:
        seed: root seed.
        stream: name of the generator, for example the module's.
    """

    seed: int
    stream: str

    def respond_to(self, header: Header) -> Responder:
        """Start the stream anew, so that every compile with this advisor is the same."""
        columns, rng = Columns((), header), generator(self.seed, "random-advisor", self.stream)
        return _one_by_one(
            lambda payloads: np.array([rng.choice(np.flatnonzero(legal)) for legal in columns.legal(payloads)]), header
        )


def _one_by_one(decide: Decide, header: Header) -> Responder:
    advice = answer_dtype(header)
    return lambda payload: advice.type(decide(np.frombuffer(payload, np.uint8)[None])[0]).tobytes()
