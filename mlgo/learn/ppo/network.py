"""Policy network in Keras and, where one is wanted, a value network, with their optimisers; all of it as arrays."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.host.actions import ActionSpace
from mlgo.learn.cloning import perceptron
from mlgo.learn.ppo.config import PPOConfig
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture, flatten

_QUESTIONS_AT_ONCE = 4096


def soften(weights: np.ndarray, architecture: Architecture, temperature: float) -> np.ndarray:
    """Divide the last layer, and with it every logit, by a temperature.

    A clone is so sure of itself that sampling from it explores nothing. No decision changes, as signs stay; exactly so
    for a power of two, which rounds nothing.

    Returns:
        float32 [num_params].
    """
    softened = weights.copy()
    softened[architecture.layer_slices()[-1]] /= np.float32(temperature)
    return softened


class ActorCritic:
    """A policy network that gives logits, and a value network of its own.

    Attributes:
        policy: Keras model, float32 [num, ..., num_inputs] to [num, ..., 1].
        value: Keras model, float32 [num, num_inputs] to [num, 1]; None where rewards are compared with siblings.
        value_optimizer: Adam with clipped gradients; None as ``value``.
    """

    def __init__(
        self, weights: np.ndarray, architecture: Architecture, actions: ActionSpace, config: PPOConfig, seed: int
    ) -> None:
        num_inputs = architecture.widths[0]
        self.question_shape = (None, *actions.seen_shape(num_inputs))
        self.policy = _perceptron(architecture, weights, actions.input_shape(num_inputs))
        self.policy_optimizer = _adam(self.policy, config.learning_rate, config.max_gradient_norm)
        self.value: Any = None
        self.value_optimizer: Any = None
        if config.baseline == "network":
            value_architecture = Architecture((num_inputs, *config.value_hidden, 1))
            weights = _value_weights(value_architecture, seed)
            self.value = _perceptron(value_architecture, weights, actions.seen_shape(num_inputs))
            self.value_optimizer = _adam(self.value, config.value_learning_rate, config.max_gradient_norm)

    @property
    def policy_weights(self) -> np.ndarray:
        """Weights of the policy as rollouts take them: float32 [num_params]."""
        arrays = [np.asarray(array) for array in self.policy.get_weights()]
        return flatten(list(zip(arrays[::2], arrays[1::2], strict=True)))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Weights and optimiser state, float32 [...] each, in a fixed order."""
        return tuple(np.asarray(variable.numpy()) for variable in self._variables())

    def restore(self, arrays: Sequence[np.ndarray]) -> None:
        """Take over what `arrays` returned, float32 [...] each."""
        for variable, array in zip(self._variables(), arrays, strict=True):
            variable.assign(array)

    def _variables(self) -> list[Any]:
        owners = (self.policy, self.value, self.policy_optimizer, self.value_optimizer)
        return [variable for owner in owners if owner is not None for variable in owner.variables]


def forward(network: Callable[[np.ndarray], Any], inputs: np.ndarray) -> np.ndarray:
    """Outputs of a function of tensors, ``[num, ...]`` to ``float32 [num, ...]``, some questions at a time."""
    parts = range(0, max(1, len(inputs)), _QUESTIONS_AT_ONCE)
    return np.concatenate([np.asarray(network(inputs[i : i + _QUESTIONS_AT_ONCE].astype(np.float32))) for i in parts])


def _perceptron(architecture: Architecture, weights: np.ndarray, shape: tuple[int | None, ...]) -> Any:
    """A network over the last axis of questions."""
    import_tensorflow()
    import keras

    model = perceptron(keras, shape, architecture.widths[1:-1])
    model.set_weights([part for layer in architecture.unflatten(weights) for part in layer])
    return model


def _adam(model: Any, learning_rate: float, max_gradient_norm: float) -> Any:
    from keras import optimizers

    optimizer = optimizers.Adam(learning_rate, global_clipnorm=max_gradient_norm)
    optimizer.build(model.trainable_variables)
    return optimizer


def _value_weights(architecture: Architecture, seed: int) -> np.ndarray:
    """Normal with variance ``2 / inputs`` in hidden layers (He et al. 2015), zeros in biases and the output layer."""
    rng = generator(seed, "ppo", "value")
    layers = [
        (rng.standard_normal((inputs, outputs)) * np.sqrt(2.0 / inputs), np.zeros(outputs))
        for inputs, outputs in pairwise(architecture.widths[:-1])
    ]
    return flatten([*layers, (np.zeros((architecture.widths[-2], 1)), np.zeros(1))])
