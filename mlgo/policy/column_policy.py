"""A trained policy for questions whose answer is one of several columns, of which some are legal."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlgo.core.errors import PolicyError
from mlgo.policy.advisors import answer_dtype
from mlgo.policy.features import check_features
from mlgo.policy.network import logits
from mlgo.policy.policy import ROUNDING, Policy
from mlgo.tasks import Decide, Responder
from mlgo.tasks.regalloc_evict import MASK
from mlgo.wire.log import Header

_IMPOSSIBLE = np.float32(-np.inf)


def column_inputs(features: np.ndarray) -> np.ndarray:
    """Inputs of the network: each feature twice, the second time in the last column only; and 1 there.

    So even a linear network can judge the last column, which stands for evicting nothing, by weights of its own.

    Args:
        features: float32 [..., num_columns, num_features], normalised.

    Returns:
        float32 [..., num_columns, 2 * num_features + 1].
    """
    num_features = features.shape[-1]
    inputs = np.zeros((*features.shape[:-1], ColumnPolicy.num_inputs(num_features)), np.float32)
    inputs[..., :num_features] = features
    inputs[..., -1, num_features:-1] = features[..., -1, :]
    inputs[..., -1, -1] = 1.0
    return inputs


@dataclass(frozen=True)
class Columns:
    """Reads the columns of observations.

    Attributes:
        features: names, each one number for a column or one for all.
        header: what the compiler sends.

    Raises:
        PolicyError: the compiler does not offer a feature, or not by columns.
    """

    features: tuple[str, ...]
    header: Header

    def __post_init__(self) -> None:
        check_features([MASK, *self.features], [spec.name for spec in self.header.features], "the compiler")
        sizes = {self.header.features[self.header.index(name)].num_elements for name in self.features}
        if not sizes <= {1, self.num_columns}:
            raise PolicyError(f"features have {sorted(sizes)} numbers, the mask has {self.num_columns}")

    @property
    def num_columns(self) -> int:
        """Columns of an observation, legal or not."""
        dtype, part = self._places[MASK]
        return (part.stop - part.start) // dtype.itemsize

    def legal(self, payloads: np.ndarray) -> np.ndarray:
        """Which columns are legal, bool [num_steps, num_columns], of raw ``uint8 [num_steps, payload_bytes]``."""
        return self._numbers(payloads, MASK) != 0

    def values(self, payloads: np.ndarray) -> np.ndarray:
        """Features of all columns, float32 [num_steps, num_columns, num_features]."""
        found = np.empty((len(payloads), self.num_columns, len(self.features)), np.float32)
        for position, name in enumerate(self.features):
            found[:, :, position] = self._numbers(payloads, name)  # a single number goes to all columns
        return found

    @cached_property
    def _places(self) -> dict[str, tuple[np.dtype[Any], slice]]:
        """Type and place of each tensor; found once, not at each question."""
        places, start = {}, 0
        for spec in self.header.features:
            places[spec.name] = (spec.dtype, slice(start, start + spec.num_bytes))
            start += spec.num_bytes
        return places

    def _numbers(self, payloads: np.ndarray, name: str) -> np.ndarray:
        dtype, part = self._places[name]
        return np.ascontiguousarray(payloads[:, part]).view(dtype)


@dataclass(frozen=True)
class ColumnPolicy(Policy):
    """Takes the legal column for which the network's output is largest; of equal ones the first.

    The network is the same for all columns, so their order does not matter, but for the last, see `column_inputs`.
    """

    @staticmethod
    def num_inputs(num_features: int) -> int:
        """See `column_inputs`."""
        return 2 * num_features + 1

    def inputs_for(self, header: Header) -> Callable[[np.ndarray], np.ndarray]:
        """Inputs of all columns, and 1 where a column is legal; see `Policy.inputs_for`.

        Returns:
            Gives float32 [num_steps, num_columns, num_inputs + 1].
        """
        columns = Columns(self.normalisation.features, header)

        def inputs(payloads: np.ndarray) -> np.ndarray:
            values = column_inputs(self.normalisation(columns.values(payloads)))
            return np.concatenate([values, columns.legal(payloads)[..., None]], axis=2, dtype=np.float32)

        return inputs

    def scores_of(self, header: Header) -> Callable[[np.ndarray], np.ndarray]:
        """Bind to the compiler's features, by name.

        Returns:
            Maps raw observations ``uint8 [num_steps, payload_bytes]`` to the network's outputs, float32 [num_steps,
            num_columns], minus infinity where a column is not legal.

        Raises:
            PolicyError: the compiler does not offer a feature, or not by columns.
        """
        columns = Columns(self.normalisation.features, header)
        return lambda payloads: self.scores(columns.values(payloads), columns.legal(payloads))

    def scores(self, values: np.ndarray, legal: np.ndarray) -> np.ndarray:
        """Outputs of the network.

        Args:
            values: float32 [num_steps, num_columns, num_features], as the compiler sends them.
            legal: bool [num_steps, num_columns].

        Returns:
            float32 [num_steps, num_columns], minus infinity where a column is not legal.
        """
        outputs = logits(self.architecture.unflatten(self.weights), column_inputs(self.normalisation(values)))
        return np.where(legal, outputs, _IMPOSSIBLE)

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name; raises as `scores_of`."""
        advice, scores = answer_dtype(header), self.scores_of(header)
        return lambda payload: advice.type(scores(np.frombuffer(payload, np.uint8)[None])[0].argmax()).tobytes()

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`.

        A product of more matrices may round otherwise than one of a single one, so close decisions are made again one
        by one.
        """
        columns, layers = Columns(self.normalisation.features, header), self.architecture.unflatten(self.weights)
        magnitudes = [(np.abs(matrix), np.abs(bias)) for matrix, bias in layers]

        def decide(payloads: np.ndarray) -> np.ndarray:
            values, legal = columns.values(payloads), columns.legal(payloads)
            found, steps = self.scores(values, legal), np.arange(len(payloads))
            answers = found.argmax(axis=1)
            best = found[steps, answers]
            found[steps, answers] = _IMPOSSIBLE
            terms = logits(magnitudes, np.abs(column_inputs(self.normalisation(values)))).max(axis=1)
            for i in np.flatnonzero(found.max(axis=1) > best - ROUNDING * terms):
                answers[i] = self.scores(values[i : i + 1], legal[i : i + 1])[0].argmax()
            return answers

        return decide
