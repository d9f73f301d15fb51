"""Advisors without weights for questions that are answered by a legal column."""

from dataclasses import dataclass

import numpy as np

from mlgo.policy.advisors import answer_dtype
from mlgo.policy.column_policy import Columns
from mlgo.seeding import generator
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header


@dataclass(frozen=True)
class LeastAdvisor:
    """Takes the legal column in which a feature is smallest; of equal ones the first.

    With ``use_def_density``, the weight of the heaviest range that would be evicted, this is the simple rule that comes
    closest to LLVM's own eviction.
    """

    feature: str

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        columns = Columns((self.feature,), header)

        def decide(payloads: np.ndarray) -> np.ndarray:
            values = np.where(columns.legal(payloads), columns.values(payloads)[..., 0], np.inf)
            return values.argmin(axis=1)

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
