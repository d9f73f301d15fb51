"""Networks and their clipped update: Schulman et al. 2017, "Proximal Policy Optimization Algorithms".

The formulas take and give tensors; TensorFlow is loaded by the time they are called.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.errors import TrainingError
from mlgo.host.actions import ActionSpace
from mlgo.learn.cloning import layers_of, perceptron
from mlgo.learn.ppo.config import PPOConfig
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture, flatten

_QUESTIONS_AT_ONCE = 4096


def soften(weights: np.ndarray, architecture: Architecture, temperature: float) -> np.ndarray:
    """Divide the last layer, and with it every logit, by a temperature: float32 [num_params].

    A clone is so sure of itself that sampling from it explores nothing. No decision changes, as signs stay; exactly so
    for a power of two, which rounds nothing.
    """
    softened = weights.copy()
    softened[architecture.layer_slices()[-1]] /= np.float32(temperature)
    return softened


class ActorCritic:
    """A policy network that gives logits, and a value network of its own, with their optimisers.

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
        return flatten(layers_of(self.policy))

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


@dataclass(frozen=True)
class Batch:
    """Questions of all episodes of an iteration, one after another: float32 [num_questions] but for the inputs.

    Attributes:
        inputs: float16 or float32 [num_questions, ...], see `Policy.inputs_for`.
        log_probabilities: of the answers under the policy that gave them.
        returns: what the value network should have said; anything without one.
    """

    inputs: np.ndarray
    answers: np.ndarray
    log_probabilities: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray

    def shuffled(self, config: PPOConfig, rng: np.random.Generator) -> Iterator["Batch"]:
        """Minibatches of each epoch, in an order of its own."""
        num = len(self.answers)
        for _ in range(config.epochs):
            order = rng.permutation(num)
            for start in range(0, num, config.batch_size):
                chosen = order[start : start + config.batch_size]
                yield Batch(*(getattr(self, one.name)[chosen] for one in fields(Batch)))


def clipped_surrogate(ratio: Any, advantages: Any, clip_range: float) -> Any:
    """``min(ratio A, clip(ratio, 1 - range, 1 + range) A)``: nothing is gained by moving further than the range."""
    from keras import ops

    return ops.minimum(ratio * advantages, ops.clip(ratio, 1.0 - clip_range, 1.0 + clip_range) * advantages)


def approximate_kl(log_ratio: Any) -> Any:
    """Mean of ``ratio - 1 - log ratio``, an estimate of the divergence from the old policy that is never negative."""
    from keras import ops

    return ops.mean(ops.expm1(log_ratio) - log_ratio)


class ClippedUpdate:
    """Several epochs over a batch; the networks change in place."""

    def __init__(self, networks: ActorCritic, actions: ActionSpace, config: PPOConfig) -> None:
        self._networks, self._config = networks, config
        self._policy_gradients = _policy_gradients(networks, actions, config)
        self._value_gradients = _value_gradients(networks.value) if networks.value is not None else None

    def __call__(self, batch: Batch, rng: np.random.Generator) -> dict[str, float]:
        """Do it once, with the questions in random order.

        The policy stops at the first minibatch on which it has moved further than ``max_kl``; the value network
        goes on.

        Returns:
            Means over the minibatches the policy saw: ``policy_loss``, ``entropy``, ``clip_fraction``; ``kl`` of the
            last of them; ``value_loss``, mean over all, where there is a value network; ``policy_steps`` taken.
        """
        records: list[dict[str, float]] = []
        value_losses: list[float] = []
        moved_too_far = False
        for part in batch.shuffled(self._config, rng):
            inputs = part.inputs.astype(np.float32)
            if not moved_too_far:
                records.append(self._update_policy(inputs, part))
                moved_too_far = records[-1]["kl"] > self._config.max_kl
            if self._value_gradients is not None:
                loss, gradients = self._value_gradients(inputs, part.returns)
                value_losses.append(_finite(loss, "value", "ppo.value_learning_rate"))
                self._networks.value_optimizer.apply(gradients)
        _check_weights(self._networks.policy, "policy", "ppo.learning_rate")
        _check_weights(self._networks.value, "value", "ppo.value_learning_rate")
        means = {name: float(np.mean([record[name] for record in records])) for name in records[0]}
        value_loss = {"value_loss": float(np.mean(value_losses))} if value_losses else {}
        return {**means, "kl": records[-1]["kl"], **value_loss, "policy_steps": len(records) - moved_too_far}

    def _update_policy(self, inputs: np.ndarray, part: Batch) -> dict[str, float]:
        """A step of the policy, unless it has moved too far by then."""
        tensors, gradients = self._policy_gradients(inputs, part.answers, part.log_probabilities, part.advantages)
        record = {name: float(tensor) for name, tensor in tensors.items()}
        _finite(record["policy_loss"], "policy", "ppo.learning_rate")
        if not record["kl"] > self._config.max_kl:
            self._networks.policy_optimizer.apply(gradients)
        return record


def _policy_gradients(networks: ActorCritic, actions: ActionSpace, config: PPOConfig) -> Any:
    """Compiled function that gives losses and gradients of a minibatch of any size."""
    import tensorflow as tf
    from keras import ops

    vector = tf.TensorSpec((None,), tf.float32)

    def gradients(inputs: Any, chosen: Any, old: Any, advantages: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = actions.logits(networks.policy, inputs)
            log_ratio = actions.log_prob(ops, logits, chosen) - old
            ratio = ops.exp(log_ratio)
            gain = ops.mean(clipped_surrogate(ratio, advantages, config.clip_range))
            doubt = ops.mean(actions.entropy(ops, logits))
            loss = -gain - config.entropy_bonus * doubt
        clipped = ops.mean(ops.cast(ops.abs(ratio - 1.0) > config.clip_range, "float32"))
        record = {"policy_loss": loss, "entropy": doubt, "kl": approximate_kl(log_ratio), "clip_fraction": clipped}
        return record, tape.gradient(loss, networks.policy.trainable_variables)

    signature = [tf.TensorSpec(networks.question_shape, tf.float32), vector, vector, vector]
    return tf.function(gradients, input_signature=signature)


def _value_gradients(network: Any) -> Any:
    """The same for the squared error of a value network."""
    import tensorflow as tf
    from keras import ops

    def gradients(inputs: Any, returns: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(network(inputs)[:, 0] - returns))
        return loss, tape.gradient(loss, network.trainable_variables)

    signature = [tf.TensorSpec(network.input_shape, tf.float32), tf.TensorSpec((None,), tf.float32)]
    return tf.function(gradients, input_signature=signature)


def _finite(loss: Any, network: str, setting: str) -> float:
    if not np.isfinite(number := float(loss)):
        raise TrainingError(f"the {network} loss of PPO is not a number; lower {setting}")
    return number


def _check_weights(network: Any, name: str, setting: str) -> None:
    if network is not None and not all(np.isfinite(part).all() for part in network.get_weights()):
        raise TrainingError(f"the {name} network of PPO has weights that are not numbers; lower {setting}")
