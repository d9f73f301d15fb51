"""A policy that now and then takes another column."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import shake_128

import numpy as np

from mlgo.policy.advisors import answer_dtype
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header

_BITS = 52
"""Of a random number, so that it is neither 0 nor 1."""


@dataclass(frozen=True)
class ExploringColumnAdvisor:
    """Takes a legal column with the probability ``softmax(scores / temperature)``.

    The luck comes from a hash of the observation, as in `ExploringAdvisor`.

    Attributes:
        policy: what is explored around.
        temperature: 0 takes the policy's own column.
        flip_share: probability that any legal column is taken instead, each with the same probability.
        seed: chooses the luck; compiles with different seeds differ.
    """

    policy: ColumnPolicy
    temperature: float
    flip_share: float
    seed: int

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features; see `ColumnPolicy.respond_to`."""
        advice, choose = answer_dtype(header), self._choice(header)
        return lambda payload: advice.type(choose(payload)).tobytes()

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        choose = self._choice(header)
        return lambda payloads: np.array([choose(payload.tobytes()) for payload in payloads], np.int64)

    def _choice(self, header: Header) -> Callable[[bytes], int]:
        scores_of, key = self.policy.scores_of(header), self.seed.to_bytes(8, "little")

        def choose(payload: bytes) -> int:
            scores = scores_of(np.frombuffer(payload, np.uint8)[None])[0]
            luck = _uniforms(key + payload, len(scores) + 2)
            if luck[-1] < self.flip_share:
                legal = np.flatnonzero(np.isfinite(scores))
                return int(legal[int(luck[-2] * len(legal))])
            if self.temperature:  # the largest of scores with Gumbel noise is a sample of their softmax
                scores = scores / self.temperature - np.log(-np.log(luck[:-2]))
            return int(scores.argmax())

        return choose


def _uniforms(key: bytes, count: int) -> np.ndarray:
    """Numbers in (0, 1) that belong to some bytes, float64 [count]."""
    words = np.frombuffer(shake_128(key).digest(8 * count), "<u8")
    return ((words >> np.uint64(64 - _BITS)) + 0.5) * 2.0**-_BITS
