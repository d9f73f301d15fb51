"""Advisors without weights for questions that are answered by a priority."""

from dataclasses import dataclass

import numpy as np

from mlgo.core.seeding import generator
from mlgo.policy.advisors import answer_dtype
from mlgo.policy.features import signed_log
from mlgo.policy.priority_policy import priority_of, record_of
from mlgo.tasks import Decide, Responder
from mlgo.tasks.regalloc_priority import MAX_PRIORITY, SIZE, SPLIT, STAGE
from mlgo.wire.log import Header

_LONG = np.float32(7.0)
"""Logarithm of a long range, in slots; twice that is far beyond the longest."""


@dataclass(frozen=True)
class LongestAdvisor:
    """Longer ranges first, those that are to be split after all others.

    That is LLVM's own order (``DefaultPriorityAdvisor`` in llvm/lib/CodeGen/RegAllocGreedy.cpp) without what the
    question does not tell: there, ranges within one block come after the others, in the order of their instructions,
    and ranges with a hint before those without.
    """

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, float32 [num_steps]."""
        record = record_of((SIZE, STAGE), header)

        def decide(payloads: np.ndarray) -> np.ndarray:
            ranges = np.ascontiguousarray(payloads).view(record)[:, 0]
            last = np.float32(2.0) * (ranges[STAGE] == SPLIT)
            return priority_of(signed_log(ranges[SIZE]) / _LONG - np.float32(1.0) - last)

        return decide

    def respond_to(self, header: Header) -> Responder:
        """The same, one by one."""
        decide = self.decide_for(header)
        return lambda payload: decide(np.frombuffer(payload, np.uint8)[None])[0].tobytes()


@dataclass(frozen=True)
class RandomPriorityAdvisor:
    """Draws priorities from 0 to `MAX_PRIORITY`.

    Attributes:
        seed: root seed.
        stream: name of the generator, for example the module's.
    """

    seed: int
    stream: str

    def respond_to(self, header: Header) -> Responder:
        """Start the stream anew, so that every compile with this advisor is the same."""
        advice, rng = answer_dtype(header), generator(self.seed, "random-advisor", self.stream)
        return lambda payload: advice.type(rng.random(dtype=np.float32) * MAX_PRIORITY).tobytes()
