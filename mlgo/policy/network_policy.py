"""A trained policy for questions that are answered by yes or no."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlgo.core.errors import PolicyError
from mlgo.policy.advisors import answer_dtype
from mlgo.policy.features import feature_columns
from mlgo.policy.network import logits
from mlgo.policy.policy import ROUNDING, Policy
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header


@dataclass(frozen=True)
class NetworkPolicy(Policy):
    """Inlines where the network's output is above 0."""

    @staticmethod
    def num_inputs(num_features: int) -> int:
        """One for each feature."""
        return num_features

    def inputs_for(self, header: Header) -> Callable[[np.ndarray], np.ndarray]:
        """Normalised features, float32 [num_steps, num_features]; see `Policy.inputs_for`."""
        columns = self._columns(header)
        return lambda payloads: self.normalisation(np.ascontiguousarray(payloads).view(np.int64)[:, columns])

    def decide(self, observations: np.ndarray) -> np.ndarray:
        """Map ``int64 [num_steps, num_features]``, columns in the policy's order, to logits ``float32 [num_steps]``."""
        return logits(self.architecture.unflatten(self.weights), self.normalisation(observations))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`.

        A product of matrices may round otherwise than one of a vector and a matrix, so logits close to zero are
        computed again one by one.
        """
        columns = self._columns(header)
        layers, normalise = self.architecture.unflatten(self.weights), self.normalisation
        magnitudes = [(np.abs(matrix), np.abs(bias)) for matrix, bias in layers]

        def decide(payloads: np.ndarray) -> np.ndarray:
            rows = normalise(np.ascontiguousarray(payloads).view(np.int64)[:, columns])
            values = logits(layers, rows)
            for i in np.flatnonzero(np.abs(values) < ROUNDING * logits(magnitudes, np.abs(rows))):
                values[i] = logits(layers, rows[i])
            return (values > 0.0).astype(np.int64)

        return decide

    def _columns(self, header: Header) -> np.ndarray:
        offered = [spec.name for spec in header.features]
        columns = feature_columns(self.normalisation.features, offered, "the compiler")
        if odd := header.not_one_int64:  # no compile of this task can succeed, so it is no failure of a single one
            raise PolicyError(f"the compiler offers features that are not one int64: {', '.join(odd[:5])}")
        return columns

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name.

        Raises:
            PolicyError: a feature is missing, or one is not a single int64.
        """
        advice = answer_dtype(header)
        yes, no = advice.type(1).tobytes(), advice.type(0).tobytes()
        logit = self.logit_of(header)
        return lambda payload: yes if logit(payload) > 0.0 else no

    def logit_of(self, header: Header) -> Callable[[bytes], float]:
        """Bind to the compiler's features: maps one observation's raw tensors to the logit; raises as `respond_to`."""
        columns = self._columns(header)
        layers, normalise = self.architecture.unflatten(self.weights), self.normalisation
        frombuffer, int64 = np.frombuffer, np.int64
        return lambda payload: logits(layers, normalise(frombuffer(payload, int64)[columns]))  # type: ignore[return-value]
