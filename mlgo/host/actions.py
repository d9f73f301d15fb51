"""Kinds of actions: yes or no, one of several, a number; how a network describes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, shake_128
from math import e, log, pi, tanh
from typing import Any, ClassVar

import numpy as np

from mlgo.errors import PolicyError, ProtocolError
from mlgo.host.action_space import ILLEGAL, ROUNDING, ActionSpace, Observation, Scaling, check_features, record_of
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
        columns, blocks, frombuffer = self._columns(header, scaling.features), header.blocks(), np.frombuffer
        dtype, is_mixed, float32 = blocks[0][0], len(blocks) > 1, np.float32

        def outputs(payload: bytes) -> np.ndarray:
            if is_mixed:
                parts = [frombuffer(payload, *block) for block in blocks]
                numbers = np.concatenate(parts, dtype=float32, casting="unsafe")
            else:
                numbers = frombuffer(payload, dtype)
            found: np.ndarray = scaling(numbers[columns]) @ matrix
            found += bias
            return found

        return outputs

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


_BITS = 52
"""Of a random number, so that it is neither 0 nor 1."""


class Masked(ActionSpace):
    """A legal action has the probability ``softmax(logits)``; the network judges each action by itself."""

    masked: ClassVar[bool] = True

    def input_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Inputs of each action."""
        return (None, num_inputs)

    def greedy(self, xp: Any, logits: Any) -> Any:
        """The action with the largest logit."""
        return xp.argmax(logits, axis=-1)

    def margin(self, logits: np.ndarray) -> np.ndarray:
        """How far the largest of [num, num_actions] is above all others; infinite where nothing else is legal."""
        rows, best = np.arange(len(logits)), logits.argmax(axis=1)
        others = logits.copy()
        others[rows, best] = -np.inf
        return logits[rows, best] - others.max(axis=1)

    def differing(self, logits: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is chosen may be as good but for rounding, nothing else: wrong ones are found among close ones, too."""
        clear, _ = super().differing(logits, actions)
        best, num_actions = logits.max(axis=1), logits.shape[1]
        there = (actions >= 0) & (actions < num_actions)
        chosen = logits[np.arange(len(logits)), np.where(there, actions, 0)]
        return clear, ~there | (chosen < best - ROUNDING * np.maximum(1.0, np.abs(best)))

    def sampler(self, temperature: float, flip_share: float, seed: int) -> Callable[[bytes, Any], int]:
        """A sample of ``softmax(logits / temperature)``; with the probability `flip_share` any legal action."""
        key = seed.to_bytes(8, "little")

        def sample(payload: bytes, logits: np.ndarray) -> int:
            uniforms = _uniforms(key + payload, len(logits) + 2)
            if uniforms[-1] < flip_share:
                legal = np.flatnonzero(np.isfinite(logits))
                return int(legal[int(uniforms[-2] * len(legal))])
            if temperature:  # the largest of logits with Gumbel noise is a sample of their softmax
                logits = logits / temperature - np.log(-np.log(uniforms[:-2]))
            return int(logits.argmax())

        return sample

    def logits(self, network: Callable[[Any], Any], seen: Any) -> Any:
        """Those of illegal actions are far below all others."""
        return network(seen[..., :-1])[..., 0] + (1.0 - seen[..., -1]) * ILLEGAL

    def log_prob(self, ops: Any, logits: Any, targets: Any) -> Any:
        """Of the chosen actions."""
        chosen = ops.cast(targets, "int32")[:, None]
        return ops.take_along_axis(ops.log_softmax(logits), chosen, axis=1)[:, 0]

    def entropy(self, ops: Any, logits: Any) -> Any:
        """At most the logarithm of the number of legal actions."""
        return -ops.sum(ops.softmax(logits) * ops.log_softmax(logits), axis=1)

    def agrees(self, ops: Any, logits: Any, targets: Any) -> Any:
        """The action with the largest logit."""
        return ops.equal(ops.argmax(logits, axis=1), ops.cast(targets, "int32"))

    def loss(self, keras: Any) -> Any:
        """Multinomial logistic regression."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def accuracy(self, keras: Any) -> Any:
        """Share of actions that are the same."""
        return keras.metrics.SparseCategoricalAccuracy("accuracy")


@dataclass(frozen=True)
class Categorical(Masked):
    """One of as many actions as the mask has numbers.

    The order of actions does not matter, but for the last: it has each feature once more, and a 1, so even a linear
    network judges it by weights of its own.

    Attributes:
        mask: feature with a number for each action, 0 where it is not legal. Other features have one for each action,
            too, or one for all.
    """

    mask: str

    def gymnasium_space(self, spaces: Any, header: Header) -> Any:
        """A column."""
        return spaces.Discrete(header.features[header.index(self.mask)].num_elements)

    @property
    def needed(self) -> tuple[str, ...]:
        """The mask."""
        return (self.mask,)

    def num_inputs(self, num_features: int) -> int:
        """Each feature twice, and 1 for the last action."""
        return 2 * num_features + 1

    def reader(self, header: Header, features: tuple[str, ...]) -> Callable[[np.ndarray], Observation]:
        """See `ActionSpace.reader`."""
        record = record_of(header, (self.mask, *features))
        num_actions = _elements(record, self.mask)
        sizes = {_elements(record, name) for name in features}
        if not sizes <= {1, num_actions}:
            raise PolicyError(f"features have {sorted(sizes)} numbers, the mask has {num_actions}")

        def read(payloads: np.ndarray) -> Observation:
            rows = np.ascontiguousarray(payloads).view(record)[..., 0]
            legal = rows[self.mask] != 0
            values = np.empty((*legal.shape, len(features)), np.float32)
            for position, name in enumerate(features):
                found = rows[name]
                values[..., position] = found if found.ndim == legal.ndim else found[..., None]
            return Observation(values, legal)

        return read

    def pack(self, xp: Any, tensors: Mapping[str, Any], features: tuple[str, ...]) -> Observation:
        """A single number goes to all actions."""
        legal = tensors[self.mask] != 0
        values = [xp.array(tensors[name], np.float32) for name in features]
        rows = [one if one.ndim == legal.ndim else one[..., None] for one in values]
        return Observation(xp.stack([xp.broadcast_to(row, legal.shape) for row in rows], axis=-1), legal)

    def encode(self, xp: Any, observation: Observation, scaling: Scaling) -> Any:
        """Each feature twice, the second time for the last action only; and 1 there."""
        return xp.concatenate(last_apart(xp, scaling(observation.values, xp)), axis=-1)

    def demonstrations(
        self, observation: Observation, scaling: Scaling, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Legal actions moved to the front, as float16: most observations have few, and memory is short.

        Returns:
            Inputs float16 [num, most_legal, num_inputs + 1], and places of the actions among them, int64 [num].
        """
        legal = observation.legal
        front = np.argsort(~legal, axis=1, kind="stable")[:, : max(1, int(legal.sum(axis=1).max(initial=0)))]
        seen = self.learner_inputs(observation, scaling).astype(np.float16)
        return np.take_along_axis(seen, front[:, :, None], axis=1), (front == actions[:, None]).argmax(axis=1)


def mask_of(actions: ActionSpace) -> str:
    """Feature that tells which actions are legal; empty where all are."""
    return actions.mask if isinstance(actions, Categorical) else ""


def last_apart(xp: Any, features: Any) -> list[Any]:
    """Features [..., num_actions, num_features], the same but 0 above the last action, and 1 there alone."""
    num_actions = features.shape[-2]
    last = (np.arange(num_actions) == num_actions - 1).astype(np.float32)[:, None]
    return [features, features * last, xp.broadcast_to(last, (*features.shape[:-1], 1))]


def _elements(record: np.dtype, name: str) -> int:
    shape = record[name].shape
    return shape[0] if shape else 1


def _uniforms(key: bytes, count: int) -> np.ndarray:
    """Numbers in (0, 1) that belong to some bytes, float64 [count]."""
    words = np.frombuffer(shake_128(key).digest(8 * count), "<u8")
    return ((words >> np.uint64(64 - _BITS)) + 0.5) * 2.0**-_BITS


@dataclass(frozen=True)
class Subset(Masked):
    """At each step one of the candidates that are left, or the stop, which is the last action."""

    def num_inputs(self, num_features: int) -> int:
        """The features of a candidate and of the whole, and 1 for the stop."""
        return num_features + 1

    def rows(self, candidates: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Inputs of the network; the stop has no features of its own.

        Args:
            candidates: float32 [num_candidates, num_features].
            whole: float32 [num_figures], the same for all actions.

        Returns:
            float32 [num_candidates + 1, num_features + num_figures + 1].
        """
        num_candidates, num_features = candidates.shape
        rows = np.zeros((num_candidates + 1, self.num_inputs(num_features + len(whole))), np.float32)
        rows[:-1, :num_features] = candidates
        rows[:, num_features:-1] = whole
        rows[-1, -1] = 1.0
        return rows

    def legal(self, left: np.ndarray, *, stop: bool = True) -> np.ndarray:
        """Which actions are: bool [num_candidates + 1].

        Args:
            left: bool [num_candidates], what may still be chosen.
            stop: whether stopping is allowed while something is left.
        """
        return np.append(left, stop or not left.any())

    def sample(self, logits: np.ndarray, rng: np.random.Generator) -> int:
        """An action drawn with the probabilities ``softmax(logits)``, [num_actions], by adding Gumbel noise."""
        return int((logits.astype(np.float64) + rng.gumbel(size=len(logits))).argmax())


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
