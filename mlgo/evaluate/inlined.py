"""What a compile inlined, as the fit of marginal costs reads it: a small part of a compile, read where it was done."""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from mlgo.host.actions import Binary
from mlgo.host.session import CompileResult, Credit
from mlgo.policy.features import Normalisation


@dataclass(frozen=True)
class Inlined:
    """One compile with the questions that were answered by yes.

    Attributes:
        module: key of the module.
        score: by the objective.
        answers: hash of all answers.
        inputs: float16 [num_inlined, num_features].
        credit: functions and their sizes, with callers and callees of the inlined questions alone; None where the
            compile does not tell them.
    """

    module: str
    score: float
    answers: bytes
    inputs: np.ndarray
    credit: Credit | None = None

    @classmethod
    def of(
        cls, module: str, score: float, inputs: np.ndarray, answers: np.ndarray, credit: Credit | None = None
    ) -> Self:
        """Take from all questions of a compile what was inlined.

        Args:
            module: key of the module.
            score: by the objective.
            inputs: [num_questions, num_features], normalised.
            answers: [num_questions], 0 or 1.
            credit: of all questions.
        """
        answers = answers.astype(np.uint8)
        yes, digest = answers == 1, hashlib.blake2b(answers.tobytes(), digest_size=16).digest()
        if credit is not None:
            credit = Credit(credit.names, credit.sizes, credit.callers[yes], credit.callees[yes])
        return cls(module, score, digest, inputs[yes].astype(np.float16), credit)


@dataclass(frozen=True)
class InlinedReader:
    """Reads compiles of a binary task; for `CompileJob.read`.

    Attributes:
        normalise: from raw features to inputs.
        objective: which score counts, by the names of ``compile.objective``.
    """

    normalise: Normalisation
    objective: str

    def __call__(self, module: str, result: CompileResult) -> Inlined:
        """Read a recorded compile.

        Raises:
            PolicyError: the compiler does not offer a feature.
        """
        header, features, actions = result.header, self.normalise.features, Binary()
        if header is None or header.advice is None:  # nothing was there to decide
            nothing = np.zeros((0, len(features)), np.float16), np.zeros(0, np.uint8)
            return Inlined.of(module, result.score(self.objective), *nothing, result.credit)
        answers = actions.targets(np.frombuffer(result.answers, header.advice.dtype))
        payloads = np.frombuffer(result.observations, np.uint8).reshape(-1, header.payload_bytes)
        inputs = np.zeros((len(answers), len(features)), np.float16)
        yes = answers == 1
        inputs[yes] = actions.seen(actions.reader(header, features)(payloads[yes]), self.normalise)
        return Inlined.of(module, result.score(self.objective), inputs, answers, result.credit)
