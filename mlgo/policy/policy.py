"""What all trained policies are: a network, its normalisation, and where they come from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header

ROUNDING = 1e-4
"""Outputs closer than this share of the sum of all terms may come out either way: float32 sums of some hundred terms
are good to 1e-5."""


@dataclass(frozen=True)
class Policy(ABC):
    """An advisor with weights, whose answers depend on the observation alone.

    Attributes:
        task: decision problem it was trained for.
        normalisation: from raw features to numbers of comparable size.
        architecture: layer widths.
        weights: float32 [num_params].
        origin: provenance.
    """

    task: str
    normalisation: Normalisation
    architecture: Architecture
    weights: np.ndarray
    origin: dict[str, Any] = field(default_factory=dict)

    def with_weights(self, weights: np.ndarray) -> Self:
        """The same policy with other weights, ``float32 [num_params]``."""
        return replace(self, weights=weights.astype(np.float32))

    @abstractmethod
    def respond_to(self, header: Header) -> Responder:
        """See `tasks.Advisor`."""

    @abstractmethod
    def decide_for(self, header: Header) -> Decide:
        """See `tasks.PureAdvisor`."""

    @abstractmethod
    def inputs_for(self, header: Header) -> Callable[[np.ndarray], np.ndarray]:
        """Bind to the compiler's features, by name.

        Returns:
            Maps raw observations, uint8 [num_steps, payload_bytes], to what a learner sees of them, float32 [num_steps,
            ...].

        Raises:
            PolicyError: the compiler does not offer a feature, or not in the expected form.
        """

    @staticmethod
    def learnt(answers: np.ndarray) -> np.ndarray:
        """Answers as a learner takes them, of which there are at most 256 kinds: uint8 [num_steps]."""
        return answers.astype(np.uint8)

    @staticmethod
    @abstractmethod
    def num_inputs(num_features: int) -> int:
        """Inputs of the network for so many features."""
