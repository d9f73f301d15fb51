"""Advisors without weights: rules, echo, constant, random, recorded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.errors import PolicyError
from mlgo.host.actions import answer_dtype, record_of
from mlgo.host.log import Header
from mlgo.host.tasks.task import Decide, Responder


@dataclass(frozen=True)
class RuleAdvisor:
    """Answers that follow from some features by a rule.

    Attributes:
        features: names.
        rule: maps features by name, each [num] or [num, num_actions], to answers, [num].
        dtype: of answers: int64, or float32 where they are continuous.
    """

    features: tuple[str, ...]
    rule: Callable[[Any], np.ndarray]
    dtype: type = np.int64

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        record = record_of(header, self.features)
        return lambda payloads: self.rule(np.ascontiguousarray(payloads).view(record)[:, 0]).astype(self.dtype)

    def respond_to(self, header: Header) -> Responder:
        """The same, one by one."""
        decide, advice = self.decide_for(header), answer_dtype(header)
        return lambda payload: advice.type(decide(np.frombuffer(payload, np.uint8)[None])[0]).tobytes()


@dataclass(frozen=True)
class RandomAdvisor:
    """Draws an answer at each question, independently.

    Attributes:
        draw: maps a generator and features by name to an answer.
        seed: root seed.
        stream: name of the generator, for example the module's.
        features: names.
    """

    draw: Callable[[np.random.Generator, Any], Any]
    seed: int
    stream: str
    features: tuple[str, ...] = ()

    def respond_to(self, header: Header) -> Responder:
        """Start the stream anew, so that every compile with this advisor is the same."""
        advice, record = answer_dtype(header), record_of(header, self.features)
        rng = generator(self.seed, "random-advisor", self.stream)
        return lambda payload: advice.type(self.draw(rng, np.frombuffer(payload, record)[0])).tobytes()


@dataclass(frozen=True)
class EchoAdvisor:
    """Answers what a feature says; with the default decision as a feature this is the built-in heuristic."""

    feature: str

    def respond_to(self, header: Header) -> Responder:
        """Bind to the feature's place in the observation."""
        start, end = self._place(header)
        return lambda payload: payload[start:end]

    def decide_for(self, header: Header) -> Decide:
        """The same answers for many observations at once."""
        (start, end), advice = self._place(header), answer_dtype(header)
        return lambda payloads: np.ascontiguousarray(payloads[:, start:end]).view(advice)[:, 0].astype(np.int64)

    def _place(self, header: Header) -> tuple[int, int]:
        advice = answer_dtype(header)
        spec = header.features[header.index(self.feature)]
        if spec.dtype != advice or spec.num_elements != 1:
            raise PolicyError(f"feature {self.feature!r} cannot be echoed as {advice}")
        start = header.offset(self.feature)
        return start, start + spec.num_bytes


@dataclass(frozen=True)
class ConstantAdvisor:
    """Always gives the same answer."""

    value: int

    def decide_for(self, header: Header) -> Decide:
        """The same answer for every observation."""
        value = int(answer_dtype(header).type(self.value))
        return lambda payloads: np.full(len(payloads), value, np.int64)

    def respond_to(self, header: Header) -> Responder:
        """Encode the answer once."""
        advice = answer_dtype(header).type(self.value).tobytes()
        return lambda payload: advice


@dataclass(frozen=True)
class RecordedAdvisor:
    """Gives the answers of an earlier compile in their order.

    Attributes:
        answers: raw answers, concatenated, as in ``CompileResult.answers``.
    """

    answers: bytes

    def respond_to(self, header: Header) -> Responder:
        """Start from the first answer."""
        width = answer_dtype(header).itemsize
        position = 0

        def respond(payload: bytes) -> bytes:
            nonlocal position
            advice = self.answers[position : position + width]
            if len(advice) != width:
                raise PolicyError(f"the record has only {len(self.answers) // width} answers, the compiler asks on")
            position += width
            return advice

        return respond
