"""A policy that now and then does something else, so that there is something to learn from."""

from dataclasses import dataclass

import numpy as np

from mlgo.host.actions.reading import answer_dtype
from mlgo.host.log import Header
from mlgo.host.tasks.task import Decide, Responder
from mlgo.policy.policy import Policy


@dataclass(frozen=True)
class ExploringAdvisor:
    """Samples the actions of a policy; what is random comes from a hash of the observation, see `ActionSpace.sampler`.

    Attributes:
        policy: what is explored around.
        temperature: of its distribution; 0 takes the policy's own action.
        flip_share: probability of another action after that.
        seed: of the hash; compiles with different seeds differ.
    """

    policy: Policy
    temperature: float
    flip_share: float
    seed: int

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features; see `Policy.respond_to`."""
        actions, logits = self.policy.actions, self.policy.logits_for(header)
        sample, reply = (
            actions.sampler(self.temperature, self.flip_share, self.seed),
            actions.reply(answer_dtype(header)),
        )
        return lambda payload: reply(sample(payload, logits(payload)))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        actions, logits = self.policy.actions, self.policy.logits_for(header)
        sample = actions.sampler(self.temperature, self.flip_share, self.seed)

        def decide(payloads: np.ndarray) -> np.ndarray:
            rows = [payload.tobytes() for payload in payloads]
            return np.array([sample(row, logits(row)) for row in rows], actions.dtype)

        return decide
