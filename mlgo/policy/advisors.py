"""Advisors without weights: echo, constant, random, recorded."""

from dataclasses import dataclass

import numpy as np

from mlgo.core.errors import PolicyError
from mlgo.core.seeding import generator
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header


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
class RandomAdvisor:
    """Inlines with a fixed probability, independently at each question.

    Attributes:
        share: probability of answer 1.
        seed: root seed.
        stream: name of the generator, for example the module's.
    """

    share: float
    seed: int
    stream: str

    def respond_to(self, header: Header) -> Responder:
        """Start the stream anew, so that every compile with this advisor is the same."""
        advice = answer_dtype(header)
        yes, no = advice.type(1).tobytes(), advice.type(0).tobytes()
        rng = generator(self.seed, "random-advisor", self.stream)
        return lambda payload: yes if rng.random() < self.share else no


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


def answer_dtype(header: Header) -> np.dtype:
    """Dtype of a scalar answer.

    Raises:
        PolicyError: the compiler expects no answer or more than one number.
    """
    if header.advice is None or header.advice.num_elements != 1:
        raise PolicyError("the compiler does not expect a single number as its answer")
    return header.advice.dtype
