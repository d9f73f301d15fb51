"""A number, of which only the order counts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import e, log, pi
from typing import Any, ClassVar

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions.space import ROUNDING, ActionSpace, Observation, Scaling, record_of
from mlgo.host.log import Header

_ONE = np.float32(1.0)


@dataclass(frozen=True)
class Scalar(ActionSpace):
    """Numbers between 0 and some value: the network's output with Gaussian noise of deviation 1, squashed.

    Only the order of actions counts, so it is the size of the outputs that says how much the noise disturbs it.
    Learners keep actions as the outputs that stand behind them.

    Observations belong to groups, each of which has weights of its own: the inputs are, for each group, 1 and the other
    features, all 0 in other groups; and whether a feature has reached a value.

    Attributes:
        high: largest action.
        group: feature that numbers the group.
        num_groups: larger numbers count as the last group.
        threshold: a feature and a value.
    """

    high: np.float32
    group: str
    num_groups: int
    threshold: tuple[str, np.float32]
    dtype: ClassVar[type] = np.float32

    @cached_property
    def _half(self) -> np.float32:
        return self.high / np.float32(2.0)

    def num_inputs(self, num_features: int) -> int:
        """So many for each group, and one for the threshold."""
        return self.num_groups * num_features + 1

    def reader(self, header: Header, features: tuple[str, ...]) -> Callable[[np.ndarray], Observation]:
        """See `ActionSpace.reader`."""
        _record_of_numbers(header, features)
        return super().reader(header, features)

    def encode(self, xp: Any, observation: Observation, scaling: Scaling) -> Any:
        """See `Scalar`."""
        raw, names = observation.values, scaling.features
        position, (feature, least) = names.index(self.group), self.threshold
        own = xp.where(np.arange(len(names)) == position, np.float32(1.0), scaling(raw, xp))
        group = xp.clip(raw[..., position], 0, self.num_groups - 1)
        of_group = xp.array(group[..., None] == np.arange(self.num_groups, dtype=np.float32), np.float32)
        products = of_group[..., None] * own[..., None, :]
        inputs = xp.reshape(products, (*own.shape[:-1], self.num_groups * len(names)))
        reached = raw[..., names.index(feature)] >= least if feature in names else xp.zeros_like(group)
        return xp.concatenate([inputs, xp.array(reached, np.float32)[..., None]], axis=-1)

    def first_layer(
        self, header: Header, scaling: Scaling, matrix: np.ndarray, bias: np.ndarray
    ) -> Callable[[bytes], np.ndarray]:
        """See `ActionSpace.first_layer`."""
        names, (feature, least) = scaling.features, self.threshold
        record = _record_of_numbers(header, names)
        of_group, of_reached = matrix[:-1].reshape(self.num_groups, len(names), -1), bias + matrix[-1]
        position, at = names.index(self.group), names.index(feature) if feature in names else None
        last, scaled = self.num_groups - 1, scaling.of_numbers()

        def outputs(payload: bytes) -> np.ndarray:
            raw = np.frombuffer(payload, record).item()
            features = scaled(raw)
            features[position] = 1.0
            group = min(max(int(raw[position]), 0), last)
            reached = at is not None and raw[at] >= least
            return np.array(features, np.float32) @ of_group[group] + (of_reached if reached else bias)

        return outputs

    def gymnasium_space(self, spaces: Any, header: Header) -> Any:
        """A number of shape [1]."""
        return spaces.Box(np.float32(0.0), self.high, (1,), np.float32)

    def greedy(self, xp: Any, logits: Any) -> Any:
        """``x / (1 + |x|)``, from [-1, 1] to [0, `high`], order kept.

        LLVM drops what is behind the decimal point. So logits between -3 and 3 are told apart if they differ by 2e-6,
        and at 20 if they differ by 6e-5, where a sigmoid would have them all equal.
        """
        return self._half + self._half * (logits / (_ONE + xp.abs(logits)))

    def margin(self, logits: np.ndarray) -> np.ndarray:
        """0 for all logits [num]: every bit shows in the action."""
        return np.zeros_like(logits)

    def sampler(self, temperature: float, flip_share: float, seed: int) -> Callable[[bytes, Any], np.float32]:
        """Gaussian noise of deviation `temperature`; with the probability `flip_share` a standard Gaussian alone."""
        key = seed.to_bytes(8, "little")

        def sample(payload: bytes, logit: np.float32) -> np.float32:
            digest = blake2b(payload, digest_size=16, key=key).digest()
            rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
            flip = rng.random() < flip_share
            noise = rng.standard_normal()
            sampled: np.float32 = self.greedy(np, np.float32(noise if flip else logit + temperature * noise))
            return sampled

        return sample

    def reply(self, dtype: np.dtype[Any]) -> Callable[[Any], bytes]:
        """As it is."""
        if dtype.kind != "f":
            raise PolicyError(f"the compiler expects {dtype} as its answer, a priority is a floating-point number")
        return super().reply(dtype)

    def differing(self, logits: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All are compared, if only the logits [num] are not all the same."""
        clear = np.full(len(logits), len(np.unique(logits)) > 1)
        slack = ROUNDING * (1.0 + np.abs(logits))
        return clear, (actions < self.greedy(np, logits - slack)) | (actions > self.greedy(np, logits + slack))

    def targets(self, actions: np.ndarray) -> np.ndarray:
        """The outputs that stand behind actions, float32 [num]; those at the ends as if just inside."""
        inside = np.clip(actions, np.float32(1.0), self.high - np.float32(1.0)).astype(np.float64)
        shares = (inside - self._half) / self._half
        return (shares / (1.0 - np.abs(shares))).astype(np.float32)

    def log_prob(self, ops: Any, logits: Any, targets: Any) -> Any:
        """Logarithm of the density of outputs: ``-(target - logit)^2 / 2 - log(2 pi) / 2``."""
        return -0.5 * (targets - logits) ** 2 - 0.5 * log(2.0 * pi)

    def entropy(self, ops: Any, logits: Any) -> Any:
        """The same for all: ``log(2 pi e) / 2``."""
        return 0.0 * logits + 0.5 * log(2.0 * pi * e)

    def agrees(self, ops: Any, logits: Any, targets: Any) -> Any:
        """Closer than a tenth of the noise."""
        return abs(targets - logits) < 0.1

    def loss(self, keras: Any) -> Any:
        """Linear regression."""
        return keras.losses.MeanSquaredError()

    def accuracy(self, keras: Any) -> Any:
        """Share of neighbours in a batch that are in the right order, of those that are not equal."""
        ops = keras.ops

        def order(wanted: Any, found: Any) -> Any:
            wanted, found = wanted[1:] - wanted[:-1], found[1:] - found[:-1]
            differing = ops.cast(wanted != 0, "float32")
            right = ops.cast(wanted * found > 0, "float32")
            return ops.sum(right) / ops.maximum(ops.sum(differing), 1.0)

        return keras.metrics.MeanMetricWrapper(order, "accuracy")


def _record_of_numbers(header: Header, features: tuple[str, ...]) -> np.dtype:
    record = record_of(header, features)
    if odd := [name for name in features if record[name].shape]:
        raise PolicyError(f"the compiler offers features that are not one number: {', '.join(odd[:5])}")
    return record
