"""Actions 0 and 1: yes or no."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import tanh
from typing import Any, ClassVar

import numpy as np

from mlgo.errors import PolicyError, ProtocolError
from mlgo.host.actions.space import ActionSpace, Observation, Scaling, check_features
from mlgo.host.log import Header

_UNIFORM_BYTES = 8


@dataclass(frozen=True)
class Binary(ActionSpace):
    """Action 1 has the probability ``sigmoid(logit)``; observations are numbers: int64, float32 if some are floats."""

    yes_or_no: ClassVar[bool] = True

    def reader(self, header: Header, features: tuple[str, ...]) -> Callable[[np.ndarray], Observation]:
        """See `ActionSpace.reader`."""
        columns = self._columns(header, features)
        return lambda payloads: Observation(header.numbers(payloads)[..., columns])

    def first_layer(
        self, header: Header, scaling: Scaling, matrix: np.ndarray, bias: np.ndarray
    ) -> Callable[[bytes], np.ndarray]:
        """See `ActionSpace.first_layer`."""
        columns, frombuffer, concatenate = self._columns(header, scaling.features), np.frombuffer, np.concatenate
        blocks, float32 = header.blocks(), np.float32

        def of_one_type(payload: bytes) -> np.ndarray:
            found: np.ndarray = scaling(frombuffer(payload, dtype)[columns]) @ matrix
            found += bias
            return found

        def of_several(payload: bytes) -> np.ndarray:
            parts = [frombuffer(payload, *block) for block in blocks]
            found: np.ndarray = scaling(concatenate(parts, dtype=float32, casting="unsafe")[columns]) @ matrix
            found += bias
            return found

        dtype = blocks[0][0]
        return of_one_type if len(blocks) == 1 else of_several

    def _columns(self, header: Header, features: tuple[str, ...]) -> np.ndarray:
        offered = [spec.name for spec in header.features]
        check_features(features, offered, "the compiler")
        try:
            header.blocks()
        except ProtocolError as error:  # no compile of this task can succeed, so it is no failure of a single one
            raise PolicyError(f"the compiler offers {error}") from error
        return np.array([offered.index(name) for name in features])

    def pack(self, xp: Any, tensors: Mapping[str, Any], features: tuple[str, ...]) -> Observation:
        """Packed as int64 and cast once: measurably faster after ahead-of-time compilation."""
        return Observation(xp.array(xp.stack([tensors[name] for name in features], axis=-1), np.float32))

    def gymnasium_space(self, spaces: Any, header: Header) -> Any:
        """0 or 1."""
        return spaces.Discrete(2)

    def greedy(self, xp: Any, logits: Any) -> Any:
        """1 where the logit is above 0."""
        return logits > 0.0

    def margin(self, logits: np.ndarray) -> np.ndarray:
        """Distance of logits [num] from 0."""
        return np.abs(logits)

    def sampler(self, temperature: float, flip_share: float, seed: int) -> Callable[[bytes, Any], bool]:
        """1 with the probability ``sigmoid(logit / temperature)``, turned around with the probability `flip_share`."""
        key, unit = seed.to_bytes(8, "little"), 2.0 ** (-8 * _UNIFORM_BYTES)

        def sample(payload: bytes, logit: float) -> bool:
            chance = float(logit > 0.0) if temperature == 0.0 else sigmoid(logit / temperature)
            digest = blake2b(payload, digest_size=_UNIFORM_BYTES, key=key).digest()
            return int.from_bytes(digest, "little") * unit < chance + flip_share * (1.0 - 2.0 * chance)

        return sample

    def reply(self, dtype: np.dtype[Any]) -> Callable[[Any], bytes]:
        """One of two answers."""
        yes, no = dtype.type(1).tobytes(), dtype.type(0).tobytes()
        return lambda action: yes if action else no

    def log_prob(self, ops: Any, logits: Any, targets: Any) -> Any:
        """``-log(1 + exp(-logit))`` for 1, ``-log(1 + exp(logit))`` for 0."""
        return -ops.softplus((1.0 - 2.0 * targets) * logits)

    def entropy(self, ops: Any, logits: Any) -> Any:
        """At most ln 2, that of a coin."""
        return ops.softplus(logits) - logits * ops.sigmoid(logits)

    def agrees(self, ops: Any, logits: Any, targets: Any) -> Any:
        """1 where the logit is above 0."""
        return (logits > 0.0) == (targets > 0.0)

    def loss(self, keras: Any) -> Any:
        """Logistic regression."""
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def accuracy(self, keras: Any) -> Any:
        """Share of actions that are the same."""
        return keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)


def sigmoid(logit: float) -> float:
    """``1 / (1 + exp(-logit))`` without overflow."""
    return 0.5 * (1.0 + tanh(0.5 * logit))
