"""One of several actions, of which some are legal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import shake_128
from typing import Any, ClassVar

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions.space import ILLEGAL, ROUNDING, ActionSpace, Observation, Scaling, record_of
from mlgo.host.log import Header

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
