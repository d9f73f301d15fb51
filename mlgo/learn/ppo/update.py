"""A policy network and its clipped update: Schulman et al. 2017, "Proximal Policy Optimization Algorithms".

The formulas take and give tensors; TensorFlow is loaded by the time they are called.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

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


class Batch(NamedTuple):
    """Questions of all episodes of an iteration, one after another: float32 [num_questions] but for the inputs."""

    inputs: np.ndarray  # float16 or float32 [num_questions, ...], see `Policy.inputs_for`
    answers: np.ndarray
    log_probabilities: np.ndarray  # of the answers under the policy that gave them
    advantages: np.ndarray

    def shuffled(self, config: PPOConfig, rng: np.random.Generator) -> Iterator["Batch"]:
        """Minibatches of each epoch, in an order of its own."""
        num = len(self.answers)
        for _ in range(config.epochs):
            order = rng.permutation(num)
            for start in range(0, num, config.batch_size):
                chosen = order[start : start + config.batch_size]
                yield Batch(*(part[chosen] for part in self))


class TrainablePolicy:
    """A policy network with its optimiser: logits, and updates in place.

    Attributes:
        model: Keras model, float32 [num, ..., num_inputs] to [num, ..., 1].
    """

    def __init__(
        self, weights: np.ndarray, architecture: Architecture, actions: ActionSpace, config: PPOConfig
    ) -> None:
        tf, num_inputs = import_tensorflow(), architecture.widths[0]
        self._actions, self._config = actions, config
        seen, vector = actions.seen_shape(num_inputs), tf.TensorSpec((None,), tf.float32)
        inputs = tf.TensorSpec((None, *seen), tf.float32)
        self.model = _perceptron(architecture, weights, actions.input_shape(num_inputs))
        self._optimizer = _adam(self.model, config.learning_rate, config.max_gradient_norm)
        self._gradients = tf.function(self._losses, input_signature=[inputs, vector, vector, vector])

    @property
    def weights(self) -> np.ndarray:
        """Weights of the policy as rollouts take them: float32 [num_params]."""
        return flatten(layers_of(self.model))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Weights and optimiser state, float32 [...] each, in a fixed order."""
        return tuple(np.asarray(variable.numpy()) for variable in self._variables())

    def restore(self, arrays: Sequence[np.ndarray]) -> None:
        """Take over what `arrays` returned, float32 [...] each."""
        for variable, array in zip(self._variables(), arrays, strict=True):
            variable.assign(array)

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self._optimizer.variables]

    def log_probabilities(self, inputs: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Of actions, float32 [num_questions], under the policy: float32 [num_questions]."""
        from keras import ops

        logits = forward(lambda part: self._actions.logits(self.model, part), inputs)
        return np.asarray(self._actions.log_prob(ops, logits, chosen))

    def update(self, batch: Batch, rng: np.random.Generator, iteration: int = 0) -> dict[str, float]:
        """Do several epochs over a batch, its questions in random order; the policy changes in place.

        It stops at the first minibatch on which it has moved further than ``max_kl``. The learning rate is that of the
        iteration, counted from 0.

        Returns:
            Means over the minibatches it saw: ``policy_loss``, ``entropy``, ``clip_fraction``; ``kl`` of the last of
            them; ``policy_steps`` taken.
        """
        records: list[dict[str, float]] = []
        config, num_steps = self._config, 0
        self._optimizer.learning_rate = config.learning_rate * config.learning_rate_decay**iteration
        for part in batch.shuffled(config, rng):
            inputs = part.inputs.astype(np.float32)
            tensors, gradients = self._gradients(inputs, part.answers, part.log_probabilities, part.advantages)
            records.append({name: float(tensor) for name, tensor in tensors.items()})
            if not np.isfinite(records[-1]["policy_loss"]):
                raise TrainingError("the policy loss of PPO is not a number; lower ppo.learning_rate")
            if records[-1]["kl"] > config.max_kl:
                break
            self._optimizer.apply(gradients)
            num_steps += 1
        if not all(np.isfinite(part).all() for part in self.model.get_weights()):
            raise TrainingError("the policy of PPO has weights that are not numbers; lower ppo.learning_rate")
        means = {name: float(np.mean([record[name] for record in records])) for name in records[0]}
        return {**means, "kl": records[-1]["kl"], "policy_steps": num_steps}

    def _losses(self, inputs: Any, chosen: Any, old: Any, advantages: Any) -> Any:
        """Losses of a minibatch, and gradients of the policy."""
        import tensorflow as tf
        from keras import ops

        config, actions = self._config, self._actions
        with tf.GradientTape() as tape:
            logits = actions.logits(self.model, inputs)
            log_ratio = actions.log_prob(ops, logits, chosen) - old
            ratio = ops.exp(log_ratio)
            gain = ops.mean(clipped_surrogate(ratio, advantages, config.clip_range))
            doubt = ops.mean(actions.entropy(ops, logits))
            loss = -gain - config.entropy_bonus * doubt
        clipped = ops.mean(ops.cast(ops.abs(ratio - 1.0) > config.clip_range, "float32"))
        record = {"policy_loss": loss, "entropy": doubt, "kl": approximate_kl(log_ratio), "clip_fraction": clipped}
        return record, tape.gradient(loss, self.model.trainable_variables)


def forward(network: Callable[[np.ndarray], Any], inputs: np.ndarray) -> np.ndarray:
    """Outputs of a function of tensors, ``[num, ...]`` to ``float32 [num, ...]``, some questions at a time."""
    parts = range(0, max(1, len(inputs)), _QUESTIONS_AT_ONCE)
    return np.concatenate([np.asarray(network(inputs[i : i + _QUESTIONS_AT_ONCE].astype(np.float32))) for i in parts])


def _perceptron(architecture: Architecture, weights: np.ndarray, shape: tuple[int | None, ...]) -> Any:
    """A network over the last axis of questions."""
    import keras

    model = perceptron(keras, shape, architecture.widths[1:-1])
    model.set_weights([part for layer in architecture.unflatten(weights) for part in layer])
    return model


def _adam(model: Any, learning_rate: float, max_gradient_norm: float) -> Any:
    from keras import optimizers

    optimizer = optimizers.Adam(learning_rate, global_clipnorm=max_gradient_norm)
    optimizer.build(model.trainable_variables)
    return optimizer


def clipped_surrogate(ratio: Any, advantages: Any, clip_range: float) -> Any:
    """``min(ratio A, clip(ratio, 1 - range, 1 + range) A)``: nothing is gained by moving further than the range."""
    from keras import ops

    return ops.minimum(ratio * advantages, ops.clip(ratio, 1.0 - clip_range, 1.0 + clip_range) * advantages)


def approximate_kl(log_ratio: Any) -> Any:
    """Mean of ``ratio - 1 - log ratio``, an estimate of the divergence from the old policy that is never negative."""
    from keras import ops

    return ops.mean(ops.expm1(log_ratio) - log_ratio)
