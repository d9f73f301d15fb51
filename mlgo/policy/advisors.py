"""Advisors around another one: with overridden answers, or exploring."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mlgo.host.actions import answer_dtype
from mlgo.host.log import Header
from mlgo.host.tasks.task import Decide, PureAdvisor, Responder
from mlgo.policy.policy import Policy

_KEY_BYTES = 16


@dataclass(frozen=True)
class OverridingAdvisor:
    """Gives the recorded answer where there is one for what it sees, else the base's answer.

    Questions are told apart by what they hold, not by their number: after one answer has changed, the compiler asks
    other questions, and a question that comes again must be known again. So the advisor is a pure function of the
    observation, and response trees answer for it.

    Attributes:
        answers: answer by key of the observation, see `observation_keys`.
    """

    base: PureAdvisor
    answers: Mapping[bytes, int] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def with_answers(self, answers: Mapping[bytes, int]) -> "OverridingAdvisor":
        """The same with further answers, which replace older ones."""
        return OverridingAdvisor(self.base, {**self.answers, **answers}, self.ignored)

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        decide, answers = self.base.decide_for(header), self.answers

        def override(payloads: np.ndarray) -> np.ndarray:
            values = decide(payloads)
            if answers:
                keys = observation_keys(header, payloads, self.ignored)
                for i, key in enumerate(keys):
                    values[i] = answers.get(key, values[i])
            return values

        return override

    def respond_to(self, header: Header) -> Responder:
        """Bind both to the compiler's features."""
        respond, answers, dtype = self.base.respond_to(header), self.answers, answer_dtype(header)
        parts = _parts(header, self.ignored)

        def override(payload: bytes) -> bytes:
            answer = answers.get(_key(payload, parts))
            return respond(payload) if answer is None else dtype.type(answer).tobytes()

        return override if answers else respond


def observation_keys(header: Header, payloads: np.ndarray, ignored: tuple[str, ...] = ()) -> list[bytes]:
    """Hash of each observation's features.

    Args:
        header: the compiler's features.
        payloads: uint8 [num, payload_bytes].
        ignored: features to leave out; names the compiler does not offer have no effect.

    Returns:
        16 bytes for each observation.
    """
    parts = _parts(header, ignored)
    return [_key(row.tobytes(), parts) for row in payloads]


def _parts(header: Header, ignored: tuple[str, ...]) -> list[slice]:
    """Bytes of an observation that count, as few slices as possible."""
    parts: list[slice] = []
    start = 0
    for spec in header.features:
        end = start + spec.num_bytes
        if spec.name not in ignored:
            if parts and parts[-1].stop == start:
                parts[-1] = slice(parts[-1].start, end)
            else:
                parts.append(slice(start, end))
        start = end
    return parts


def _key(payload: bytes, parts: list[slice]) -> bytes:
    digest = hashlib.blake2b(digest_size=_KEY_BYTES)
    for part in parts:
        digest.update(payload[part])
    return digest.digest()


@dataclass(frozen=True)
class ExploringAdvisor:
    """Samples the actions of a policy; what is random comes from a hash of the observation, see `ActionSpace.sampler`.

    Attributes:
        temperature: of its distribution; 0 takes the policy's own action.
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
