"""A policy that gives other priorities by chance."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from mlgo.policy.advisors import answer_dtype
from mlgo.policy.priority_policy import PriorityPolicy, priority_of
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header


@dataclass(frozen=True)
class ExploringPriorityAdvisor:
    """Adds Gaussian noise to the outputs of a policy.

    The luck comes from a hash of the observation, as in `ExploringAdvisor`.

    Attributes:
        policy: what is explored around.
        temperature: standard deviation of the noise, in outputs of the network.
        flip_share: probability that the output is a standard Gaussian number, whatever the question.
        seed: chooses the luck; compiles with different seeds differ.
    """

    policy: PriorityPolicy
    temperature: float
    flip_share: float
    seed: int

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features; see `PriorityPolicy.respond_to`."""
        advice, choose = answer_dtype(header), self._choice(header)
        return lambda payload: advice.type(choose(payload)).tobytes()

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        choose = self._choice(header)
        return lambda payloads: np.array([choose(payload.tobytes()) for payload in payloads], np.float32)

    def _choice(self, header: Header) -> Callable[[bytes], np.float32]:
        output, key = self.policy.output_for(header), self.seed.to_bytes(8, "little")

        def choose(payload: bytes) -> np.float32:
            luck = int.from_bytes(blake2b(payload, digest_size=16, key=key).digest(), "little")
            rng = np.random.Generator(np.random.PCG64(luck))
            if rng.random() < self.flip_share:
                return priority_of(np.float32(rng.standard_normal()))
            return priority_of(np.float32(output(payload) + self.temperature * rng.standard_normal()))

        return choose
