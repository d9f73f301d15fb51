"""Compiles under answers that were drawn with a policy's own probabilities, with their rewards."""

from dataclasses import dataclass

import numpy as np

from mlgo.host.session import Credit


@dataclass(frozen=True)
class Sampled:
    """An episode whose answers were drawn with the probabilities of the policy.

    Attributes:
        subject: key of the module, with the function where each function is an episode of its own.
        inputs: float16 or float32 [num_questions, ...], see `Policy.inputs_for`.
        answers: uint8 [num_questions].
        reward: relative reward, at the end.
        credit: functions of the decisions and their sizes, where they were asked for.
    """

    subject: str
    inputs: np.ndarray
    answers: np.ndarray
    reward: float
    credit: Credit | None = None


@dataclass(frozen=True)
class SampledCompile:
    """A compile under such answers.

    Attributes:
        reward: relative reward of the module.
        episodes: the module as a whole, or its functions that were asked about.
    """

    reward: float
    episodes: tuple[Sampled, ...]
