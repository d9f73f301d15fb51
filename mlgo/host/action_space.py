"""What all action spaces have in common.

A method that takes ``xp`` is written once for NumPy and for tensors: ``xp`` is the module ``numpy`` or ``keras.ops``,
whose functions have the same names. Methods that only learners call take ``ops``, which is ``keras.ops``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from mlgo.errors import PolicyError
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
    """Layout of an observation: features by name, where they lie among the compiler's.

    Args:
        header: what the compiler sends.
        features: names.

    Returns:
        A structured dtype of ``header.payload_bytes``; a feature of several numbers is a field of shape [num_elements].
    """
    check_features(features, [spec.name for spec in header.features], "the compiler")
    specs = [header.features[header.index(name)] for name in features]
    return np.dtype(
        {
            "names": list(features),
            "formats": [spec.dtype if spec.num_elements == 1 else (spec.dtype, spec.num_elements) for spec in specs],
            "offsets": [header.offset(name) for name in features],
            "itemsize": header.payload_bytes,
        }
    )


ROUNDING = 1e-4
"""Logits closer than this share of the sum of all terms may come out either way: float32 sums of some hundred terms are
good to 1e-5."""

ILLEGAL = -1e9
"""Added to the logit of an action that is not legal: its probability is zero in float32."""


class Scaling(Protocol):
    """Brings features to comparable size; see `policy.features.Normalisation`."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names, in the order of the inputs."""
        ...

    def __call__(self, values: Any, xp: Any = np) -> Any:
        """Map ``[..., num_features]`` to ``float32 [..., num_features]``."""
        ...

    def of_numbers(self) -> Callable[[Sequence[float]], list[float]]:
        """The same for plain numbers, quicker than arrays where there are few."""
        ...


class Observation(NamedTuple):
    """One observation or many.

    Attributes:
        values: features as the compiler sends them, [..., num_features], or [..., num_actions, num_features].
        legal: bool [..., num_actions]; None where every action is legal.
    """

    values: Any
    legal: Any = None


class ActionSpace(ABC):
    """A set of actions, and a distribution over it that the outputs of a network describe.

    A network gives one output for each row of inputs; `logits` are these outputs, those of illegal actions minus
    infinity. Learners keep actions as `targets`, and whether an action is legal as a last input.

    Attributes:
        dtype: of actions, int64 or float32.
        masked: whether some actions may be illegal.
        yes_or_no: whether actions are answers of yes and no, of which the yes are counted.
    """

    dtype: ClassVar[type] = np.int64
    masked: ClassVar[bool] = False
    yes_or_no: ClassVar[bool] = False

    @property
    def needed(self) -> tuple[str, ...]:
        """Features that an observation needs whatever a policy's features are."""
        return ()

    # From what a compiler sends to the inputs of a network.

    def num_inputs(self, num_features: int) -> int:
        """Inputs of the network for so many features."""
        return num_features

    def input_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Shape of one observation as the network takes it."""
        return (num_inputs,)

    def seen_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Shape of one observation as learners keep it, see `seen`."""
        *rows, num = self.input_shape(num_inputs)
        assert num is not None
        return (*rows, num + self.masked)

    def reader(self, header: Header, features: tuple[str, ...]) -> Callable[[np.ndarray], Observation]:
        """Bind to the compiler's features, by name.

        Returns:
            Maps raw observations, uint8 [payload_bytes] or [num, payload_bytes], to features.
        """
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
        """What learners keep of observations: inputs, and as the last one whether an action is legal.

        Returns:
            float32 [num, num_inputs], or [num, num_actions, num_inputs + 1] where some may be illegal.
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
        """Sampled actions, which follow from a hash of the observation: the same question gets the same action.

        So compiles repeat exactly, and response trees serve exploration as they serve policies.

        Args:
            temperature: of the distribution; 0 takes the best action.
            flip_share: probability of another action after that, whatever the observation.
            seed: of the hash.

        Returns:
            Maps a raw observation and its logits to an action.
        """

    def reply(self, dtype: np.dtype[Any]) -> Callable[[Any], bytes]:
        """Maps an action to the raw answer."""
        number = dtype.type
        return lambda action: number(action).tobytes()

    def differing(self, logits: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compare actions that were found another way; rounding may differ.

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
        """Recorded observations and actions [num] as cloning takes them; see `seen` and `targets`."""
        return self.learner_inputs(observation, scaling), self.targets(actions).astype(np.float32)

    def logits(self, network: Callable[[Any], Any], seen: Any) -> Any:
        """Logits, float32 [num] or [num, num_actions], of a network with one output; see `seen`."""
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
