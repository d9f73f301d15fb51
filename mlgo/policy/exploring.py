"""A policy that now and then does something else, so that there is something to learn from."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from math import tanh

import numpy as np

from mlgo.policy.advisors import answer_dtype
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header

_UNIFORM_BYTES = 8


@dataclass(frozen=True)
class ExploringAdvisor:
    """Inlines with a probability that follows from the policy's logit; the luck comes from a hash of the observation.

    The same question therefore always gets the same answer from the same advisor: compiles repeat exactly, and decision
    trees serve exploration as they serve policies.

    Attributes:
        policy: what is explored around.
        temperature: the logit is divided by it before the sigmoid; 0 takes the policy's own answer.
        flip_share: probability that the answer is turned around afterwards.
        seed: chooses the luck; compiles with different seeds differ.
    """

    policy: NetworkPolicy
    temperature: float
    flip_share: float
    seed: int

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features; see `NetworkPolicy.respond_to`."""
        advice = answer_dtype(header)
        yes, no = advice.type(1).tobytes(), advice.type(0).tobytes()
        logit, uniform = self.policy.logit_of(header), self._uniform()
        return lambda payload: yes if uniform(payload) < self._chance(logit(payload)) else no

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        logit, uniform = self.policy.logit_of(header), self._uniform()

        def decide(payloads: np.ndarray) -> np.ndarray:
            rows = [payload.tobytes() for payload in payloads]
            return np.array([uniform(row) < self._chance(logit(row)) for row in rows], np.int64)

        return decide

    def _uniform(self) -> Callable[[bytes], float]:
        """A number in [0, 1) that belongs to an observation."""
        key = self.seed.to_bytes(8, "little")
        scale = 2.0 ** (-8 * _UNIFORM_BYTES)

        def uniform(payload: bytes) -> float:
            return int.from_bytes(blake2b(payload, digest_size=_UNIFORM_BYTES, key=key).digest(), "little") * scale

        return uniform

    def _chance(self, logit: float) -> float:
        """Probability of inlining."""
        chance = float(logit > 0.0) if self.temperature == 0.0 else sigmoid(logit / self.temperature)
        return chance + self.flip_share * (1.0 - 2.0 * chance)


def sigmoid(logit: float) -> float:
    """``1 / (1 + exp(-logit))`` without overflow."""
    return 0.5 * (1.0 + tanh(0.5 * logit))
