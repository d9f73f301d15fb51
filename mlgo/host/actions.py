"""Action spaces: yes or no, one of several, a number; how a network describes them.

A method that takes ``xp`` is written once for NumPy and for tensors: ``xp`` is the module ``numpy`` or ``keras.ops``,
whose functions have the same names. Methods that only learners call take ``ops``, which is ``keras.ops``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, shake_128
from math import e, log, pi, prod, tanh
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from mlgo.errors import PolicyError, ProtocolError
from mlgo.host.log import Header


def answer_dtype(header: Header) -> np.dtype:
    """Dtype of a scalar answer."""
    if header.advice is None or header.advice.num_elements != 1:
        raise PolicyError("the compiler does not expect a single number as its answer")
    return header.advice.dtype


def check_features(wanted: Sequence[str], offered: Sequence[str], what: str) -> None:
    """Compare a policy's features with what a compiler or a trace offers."""
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise PolicyError(
            f"{what} lacks {len(missing)} of the policy's features ({', '.join(missing[:5])}); "
            "it was trained for another task or LLVM version, or with another compile.ir2vec "
            "or compile.tell_heuristic"
        )


def record_of(header: Header, features: Sequence[str]) -> np.dtype:
    """Layout of an observation by names of features, structured of ``header.payload_bytes``; see `Header.record`.

    Raises:
        PolicyError: the compiler does not offer some of them.
    """
    check_features(features, [spec.name for spec in header.features], "the compiler")
    return header.record[list(features)]


ROUNDING = 1e-4
"""Logits closer than this share of the sum of all terms may come out either way: float32 sums of some hundred terms are
good to 1e-5."""

ILLEGAL = -1e9
"""Added to the logit of an action that is not legal: its probability is zero in float32."""


class Scaling(Protocol):
    """Brings features to comparable size, float32 [..., num_features]; see `policy.features.Normalisation`.

    What `of_numbers` gives does the same for plain numbers, quicker than arrays where there are few.
    """

    @property
    def features(self) -> tuple[str, ...]: ...
    def __call__(self, values: Any, xp: Any = np) -> Any: ...
    def of_numbers(self) -> Callable[[Sequence[float]], list[float]]: ...


class Observation(NamedTuple):
    """One observation or many."""

    values: Any  # features as the compiler sends them, [..., num_features], or [..., num_actions, num_features]
    legal: Any = None  # bool [..., num_actions]; None where every action is legal


class ActionSpace(ABC):
    """A set of actions, and a distribution over it that the outputs of a network describe.

    A network gives one output for each row of inputs; `logits` are these outputs, those of illegal actions minus
    infinity. Learners keep actions as `targets`, and whether an action is legal as a last input.

    Attributes:
        dtype: of actions, int64 or float32.
        masked: whether some actions may be illegal.
        yes_or_no: whether actions are answers of yes and no, of which the yes are counted.
        mask: feature that says which actions are legal; empty where all are.
    """

    dtype: ClassVar[type] = np.int64
    masked: ClassVar[bool] = False
    yes_or_no: ClassVar[bool] = False
    mask = ""

    @property
    def needed(self) -> tuple[str, ...]:
        """Features that an observation needs whatever a policy's features are."""
        return (self.mask,) if self.mask else ()

    # From what a compiler sends to the inputs of a network.

    def num_inputs(self, num_features: int) -> int:
        """Inputs of the network for so many features."""
        return num_features

    def input_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Shape of one observation as the network takes it."""
        return (num_inputs,)

    def seen_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Shape of one observation as learners keep it, see `learner_inputs`."""
        *rows, num = self.input_shape(num_inputs)
        assert num is not None
        return (*rows, num + self.masked)

    def reader(self, header: Header, features: tuple[str, ...]) -> Callable[[np.ndarray], Observation]:
        """Maps raw observations, uint8 [payload_bytes] or [num, payload_bytes], to features, by their names."""
        record = record_of(header, (*self.needed, *features))

        def read(payloads: np.ndarray) -> Observation:
            rows: Any = np.ascontiguousarray(payloads).view(record)[..., 0]
            return self.pack(np, rows, features)

        return read

    def pack(self, xp: Any, tensors: Mapping[str, Any], features: tuple[str, ...]) -> Observation:
        """Join features that are given by name, each [...] or [..., num_actions]."""
        return Observation(xp.stack([xp.array(tensors[name], np.float32) for name in features], axis=-1))

    def encode(self, xp: Any, observation: Observation, scaling: Scaling) -> Any:
        """Inputs of the network, float32 [..., num_inputs] or [..., num_actions, num_inputs]."""
        return scaling(observation.values, xp)

    def learner_inputs(self, observation: Observation, scaling: Scaling) -> np.ndarray:
        """What learners keep of observations: inputs, float32 [num, num_inputs].

        Where some actions may be illegal, [num, num_actions, num_inputs + 1], of which the last says which are legal.
        """
        inputs: np.ndarray = self.encode(np, observation, scaling)
        if observation.legal is None:
            return inputs
        return np.concatenate([inputs, observation.legal[..., None]], axis=-1, dtype=np.float32)

    def first_layer(
        self, header: Header, scaling: Scaling, matrix: np.ndarray, bias: np.ndarray
    ) -> Callable[[bytes], np.ndarray] | None:
        """A quicker way to ``inputs @ matrix + bias``, float32 [num_outputs], of one observation; None without one."""
        return None

    # From the outputs of a network to actions.

    def gymnasium_space(self, spaces: Any, header: Header) -> Any:
        """The space of answers to one question, of the module ``gymnasium.spaces``."""
        raise NotImplementedError

    @abstractmethod
    def greedy(self, xp: Any, logits: Any) -> Any:
        """The best actions, [...]; of equal ones the first. `dtype` is left to the caller."""

    @abstractmethod
    def margin(self, logits: np.ndarray) -> np.ndarray:
        """How far logits are from another action, float32 [num]: 0 where the least rounding makes another one."""

    @abstractmethod
    def sampler(self, temperature: float, flip_share: float, seed: int) -> Callable[[bytes, Any], Any]:
        """Maps a raw observation and its logits to a sampled action, which follows from a hash of the observation.

        So compiles repeat exactly, and response trees serve exploration as they serve policies.

        Args:
            temperature: of the distribution; 0 takes the best action.
            flip_share: probability of another action after that, whatever the observation.
            seed: of the hash.
        """

    def reply(self, dtype: np.dtype[Any]) -> Callable[[Any], bytes]:
        """Maps an action to the raw answer."""
        number = dtype.type
        return lambda action: number(action).tobytes()

    def differing(self, logits: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compare actions that were computed another way; rounding may differ.

        Returns:
            Where a comparison makes sense, and where actions are not the best ones by more than rounding; bool [num].
        """
        margin, best = self.margin(logits), logits if logits.ndim == 1 else logits.max(axis=1)
        clear = np.isfinite(margin) & (margin >= ROUNDING * np.maximum(1.0, np.abs(best)))
        return clear, clear & (self.greedy(np, logits) != actions)

    # For learners: a distribution, in tensors of Keras.

    def targets(self, actions: np.ndarray) -> np.ndarray:
        """Actions as learners take them: uint8 [num], or float32 where they are continuous."""
        return actions.astype(np.uint8)

    def demonstrations(
        self, observation: Observation, scaling: Scaling, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recorded observations and actions [num] as cloning takes them; see `learner_inputs` and `targets`."""
        return self.learner_inputs(observation, scaling), self.targets(actions).astype(np.float32)

    def logits(self, network: Callable[[Any], Any], seen: Any) -> Any:
        """Logits, float32 [num] or [num, num_actions], of a network with one output; see `learner_inputs`."""
        return network(seen)[:, 0]

    @abstractmethod
    def log_prob(self, ops: Any, logits: Any, targets: Any) -> Any:
        """Logarithm of the probability of actions, float32 [num]."""

    @abstractmethod
    def entropy(self, ops: Any, logits: Any) -> Any:
        """Entropy of the actions in nats, float32 [num]."""

    @abstractmethod
    def agrees(self, ops: Any, logits: Any, targets: Any) -> Any:
        """Whether the best actions are these, bool [num]."""

    @abstractmethod
    def loss(self, keras: Any) -> Any:
        """Loss of cloning: ``-log_prob`` but for a constant and a factor, by the function that Keras has for it."""

    @abstractmethod
    def accuracy(self, keras: Any) -> Any:
        """Metric of cloning, named ``accuracy``."""


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
        columns, blocks = self._columns(header, scaling.features), header.blocks()

        def outputs(payload: bytes) -> np.ndarray:
            parts = [np.frombuffer(payload, *block) for block in blocks]
            numbers = np.concatenate(parts, dtype=np.float32, casting="unsafe")
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
        return spaces.Discrete(2)

    def greedy(self, xp: Any, logits: Any) -> Any:
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
        yes, no = dtype.type(1).tobytes(), dtype.type(0).tobytes()
        return lambda action: yes if action else no

    def log_prob(self, ops: Any, logits: Any, targets: Any) -> Any:
        """``-log(1 + exp(-logit))`` for 1, ``-log(1 + exp(logit))`` for 0."""
        return -ops.softplus((1.0 - 2.0 * targets) * logits)

    def entropy(self, ops: Any, logits: Any) -> Any:
        """At most ln 2, that of a coin."""
        return ops.softplus(logits) - logits * ops.sigmoid(logits)

    def agrees(self, ops: Any, logits: Any, targets: Any) -> Any:
        return (logits > 0.0) == (targets > 0.0)

    def loss(self, keras: Any) -> Any:
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def accuracy(self, keras: Any) -> Any:
        return keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)


def sigmoid(logit: float) -> float:
    """``1 / (1 + exp(-logit))`` without overflow."""
    return 0.5 * (1.0 + tanh(0.5 * logit))


_BITS = 52
"""Of a random number in (0, 1)."""


class Masked(ActionSpace):
    """A legal action has the probability ``softmax(logits)``; the network judges each action by itself."""

    masked: ClassVar[bool] = True

    def input_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        return (None, num_inputs)

    def greedy(self, xp: Any, logits: Any) -> Any:
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
            words = np.frombuffer(shake_128(key + payload).digest(8 * (len(logits) + 2)), "<u8")
            uniforms = ((words >> np.uint64(64 - _BITS)) + 0.5) * 2.0**-_BITS
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
        chosen = ops.cast(targets, "int32")[:, None]
        return ops.take_along_axis(ops.log_softmax(logits), chosen, axis=1)[:, 0]

    def entropy(self, ops: Any, logits: Any) -> Any:
        """At most the logarithm of the number of legal actions."""
        return -ops.sum(ops.softmax(logits) * ops.log_softmax(logits), axis=1)

    def agrees(self, ops: Any, logits: Any, targets: Any) -> Any:
        return ops.equal(ops.argmax(logits, axis=1), ops.cast(targets, "int32"))

    def loss(self, keras: Any) -> Any:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def accuracy(self, keras: Any) -> Any:
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

    mask: str = field()  # must be given: the base class has an empty one

    def gymnasium_space(self, spaces: Any, header: Header) -> Any:
        return spaces.Discrete(header.features[header.index(self.mask)].num_elements)

    def num_inputs(self, num_features: int) -> int:
        return 2 * num_features + 1

    def reader(self, header: Header, features: tuple[str, ...]) -> Callable[[np.ndarray], Observation]:
        """See `ActionSpace.reader`."""
        record = record_of(header, (self.mask, *features))
        num_actions, *sizes = (prod(record[name].shape) for name in (self.mask, *features))
        if not {*sizes} <= {1, num_actions}:
            raise PolicyError(f"features have {sorted({*sizes})} numbers, the mask has {num_actions}")

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
        """Features, the same but 0 above the last action, and 1 there alone."""
        features = scaling(observation.values, xp)
        num_actions = features.shape[-2]
        last = (np.arange(num_actions) == num_actions - 1).astype(np.float32)[:, None]
        return xp.concatenate([features, features * last, xp.broadcast_to(last, (*features.shape[:-1], 1))], axis=-1)

    def demonstrations(
        self, observation: Observation, scaling: Scaling, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Legal actions moved to the front: float16 [num, most_legal, num_inputs + 1], and places there, int64 [num].

        Most observations have few, and memory is short.
        """
        legal = observation.legal
        front = np.argsort(~legal, axis=1, kind="stable")[:, : max(1, int(legal.sum(axis=1).max(initial=0)))]
        seen = self.learner_inputs(observation, scaling).astype(np.float16)
        return np.take_along_axis(seen, front[:, :, None], axis=1), (front == actions[:, None]).argmax(axis=1)


@dataclass(frozen=True)
class Subset(Masked):
    """At each step one of the candidates that are left, or the stop, which is the last action."""

    def num_inputs(self, num_features: int) -> int:
        return num_features + 1

    def rows(self, candidates: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Inputs of the network, float32 [num_candidates + 1, num_features + num_figures + 1].

        Args:
            candidates: float32 [num_candidates, num_features]; the stop has no features of its own.
            whole: float32 [num_figures], the same for all actions.
        """
        num_candidates, num_features = candidates.shape
        rows = np.zeros((num_candidates + 1, self.num_inputs(num_features + len(whole))), np.float32)
        rows[:-1, :num_features] = candidates
        rows[:, num_features:-1] = whole
        rows[-1, -1] = 1.0
        return rows

    def legal(self, left: np.ndarray, *, stop: bool = True) -> np.ndarray:
        """Which actions are, bool [num_candidates + 1]: those ``left``, bool [num_candidates], and perhaps the stop."""
        return np.append(left, stop or not left.any())

    def sample(self, logits: np.ndarray, rng: np.random.Generator) -> int:
        """An action drawn with the probabilities ``softmax(logits)``, [num_actions], by adding Gumbel noise."""
        return int((logits.astype(np.float64) + rng.gumbel(size=len(logits))).argmax())


@dataclass(frozen=True)
class Scalar(ActionSpace):
    """Numbers between 0 and some value: the network's output with Gaussian noise of deviation 1, squashed.

    Only the order of actions counts, so it is the size of the outputs that says how much the noise disturbs it.
    Learners keep actions as the outputs that stand behind them.

    Observations belong to groups, each of which has weights of its own: the inputs are, for each group, 1 and the other
    features, all 0 in other groups; and whether a feature has reached a value.
    """

    high: np.float32  # largest action
    group: str  # feature that numbers the group
    num_groups: int  # larger numbers count as the last group
    threshold: tuple[str, np.float32]  # a feature and a value
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
        return spaces.Box(np.float32(0.0), self.high, (1,), np.float32)

    def greedy(self, xp: Any, logits: Any) -> Any:
        """``x / (1 + |x|)``, from [-1, 1] to [0, `high`], order kept.

        LLVM drops what is behind the decimal point. So logits between -3 and 3 are told apart if they differ by 2e-6,
        and at 20 if they differ by 6e-5, where a sigmoid would have them all equal.
        """
        return self._half + self._half * (logits / (np.float32(1.0) + xp.abs(logits)))

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
