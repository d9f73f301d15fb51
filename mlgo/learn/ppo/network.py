"""Policy and value network in Keras, with their optimisers; all of it as arrays, for checkpoints."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mlgo.config import PPOConfig
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture, flatten
from mlgo.seeding import generator


def soften(weights: np.ndarray, architecture: Architecture, temperature: float) -> np.ndarray:
    """Divide the last layer, and with it every logit, by a temperature.

    A clone is so sure of itself that sampling from it explores nothing. No decision changes, as signs stay; exactly so
    for a power of two, which rounds nothing.

    Args:
        weights: float32 [num_params].
        architecture: layer widths.
        temperature: above 0.

    Returns:
        float32 [num_params].
    """
    softened = weights.copy()
    softened[architecture.layer_slices()[-1]] /= np.float32(temperature)
    return softened


class ActorCritic:
    """A policy network that gives logits, and a value network of its own.

    Attributes:
        policy: Keras model, float32 [num, num_inputs] to [num, 1].
        value: Keras model of the same form.
        policy_optimizer: Adam with clipped gradients.
        value_optimizer: Adam with clipped gradients.

    Args:
        weights: float32 [num_params], policy to start from.
        architecture: its layer widths.
        config: hidden layers of the value network, step sizes, largest gradient.
        seed: root seed of the value network's weights; its output layer starts at zero, expecting nothing.
    """

    def __init__(self, weights: np.ndarray, architecture: Architecture, config: PPOConfig, seed: int) -> None:
        import_tensorflow()
        from keras import optimizers

        value_architecture = Architecture((architecture.widths[0], *config.value_hidden, 1))
        self.policy = _perceptron(architecture, weights)
        self.value = _perceptron(value_architecture, _value_weights(value_architecture, seed))
        self.policy_optimizer = optimizers.Adam(config.learning_rate, global_clipnorm=config.max_gradient_norm)
        self.value_optimizer = optimizers.Adam(config.value_learning_rate, global_clipnorm=config.max_gradient_norm)
        self.policy_optimizer.build(self.policy.trainable_variables)
        self.value_optimizer.build(self.value.trainable_variables)

    @property
    def policy_weights(self) -> np.ndarray:
        """Weights of the policy as rollouts take them: float32 [num_params]."""
        arrays = [np.asarray(array) for array in self.policy.get_weights()]
        return flatten(list(zip(arrays[::2], arrays[1::2], strict=True)))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Weights and optimiser state, in a fixed order."""
        return tuple(variable.numpy() for variable in self._variables())

    def restore(self, arrays: Sequence[np.ndarray]) -> None:
        """Take over what `arrays` returned."""
        for variable, array in zip(self._variables(), arrays, strict=True):
            variable.assign(array)

    def _variables(self) -> list[Any]:
        owners = (self.policy, self.value, self.policy_optimizer, self.value_optimizer)
        return [variable for owner in owners for variable in owner.variables]


def forward(model: Any, inputs: np.ndarray) -> np.ndarray:
    """Outputs of a network: ``float [num, num_inputs]`` to ``float32 [num]``."""
    return np.asarray(model(inputs.astype(np.float32)))[:, 0]


def _perceptron(architecture: Architecture, weights: np.ndarray) -> Any:
    import keras

    hidden = [keras.layers.Dense(units, activation="relu") for units in architecture.widths[1:-1]]
    model = keras.Sequential([keras.Input((architecture.widths[0],)), *hidden, keras.layers.Dense(1)])
    model.set_weights([part for layer in architecture.unflatten(weights) for part in layer])
    return model


def _value_weights(architecture: Architecture, seed: int) -> np.ndarray:
    """Normal with variance ``2 / inputs`` in hidden layers (He et al. 2015), zeros in biases and the output layer."""
    rng = generator(seed, "ppo", "value")
    layers = [
        (rng.standard_normal((inputs, outputs)) * np.sqrt(2.0 / inputs), np.zeros(outputs))
        for inputs, outputs in pairwise(architecture.widths[:-1])
    ]
    return flatten([*layers, (np.zeros((architecture.widths[-2], 1)), np.zeros(1))])
