"""The clipped update: Schulman et al. 2017, "Proximal Policy Optimization Algorithms".

The formulas take and give tensors; TensorFlow is loaded by the time they are called.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.errors import TrainingError
from mlgo.host.actions import ActionSpace
from mlgo.learn.ppo.config import PPOConfig
from mlgo.learn.ppo.network import ActorCritic


@dataclass(frozen=True)
class Batch:
    """Questions of all episodes of an iteration, one after another.

    Attributes:
        inputs: float16 or float32 [num_questions, ...], see `Policy.inputs_for`.
        answers: float32 [num_questions].
        log_probabilities: float32 [num_questions], of the answers under the policy that gave them.
        advantages: float32 [num_questions].
        returns: float32 [num_questions], what the value network should have said; anything without one.
    """

    inputs: np.ndarray
    answers: np.ndarray
    log_probabilities: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray


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
        """Do it once.

        The policy stops at the first minibatch on which it has moved further than ``max_kl``; the value network
        goes on.

        Args:
            batch: questions with advantages.
            rng: order of the questions.

        Returns:
            Means over the minibatches the policy saw: ``policy_loss``, ``entropy``, ``clip_fraction``; ``kl`` of the
            last of them; ``value_loss``, mean over all, where there is a value network; ``policy_steps`` taken.
        """
        records: list[dict[str, float]] = []
        value_losses: list[float] = []
        steps, moved_too_far = 0, False
        for part in _minibatches(batch, self._config, rng):
            inputs = part.inputs.astype(np.float32)
            if not moved_too_far:
                tensors, gradients = self._policy_gradients(
                    inputs, part.answers, part.log_probabilities, part.advantages
                )
                records.append({name: float(tensor) for name, tensor in tensors.items()})
                _check(records[-1]["policy_loss"], "policy", "ppo.learning_rate")
                moved_too_far = records[-1]["kl"] > self._config.max_kl
                if not moved_too_far:
                    self._networks.policy_optimizer.apply(gradients)
                    steps += 1
            if self._value_gradients is not None:
                loss, gradients = self._value_gradients(inputs, part.returns)
                value_losses.append(float(loss))
                _check(value_losses[-1], "value", "ppo.value_learning_rate")
                self._networks.value_optimizer.apply(gradients)
        for network, name, setting in (
            (self._networks.policy, "policy", "ppo.learning_rate"),
            (self._networks.value, "value", "ppo.value_learning_rate"),
        ):
            if network is not None and not all(np.isfinite(part).all() for part in network.get_weights()):
                raise TrainingError(f"the {name} network of PPO has weights that are not numbers; lower {setting}")
        means = {name: float(np.mean([record[name] for record in records])) for name in records[0]}
        value_loss = {"value_loss": float(np.mean(value_losses))} if value_losses else {}
        return {**means, "kl": records[-1]["kl"], **value_loss, "policy_steps": steps}


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


def _minibatches(batch: Batch, config: PPOConfig, rng: np.random.Generator) -> Iterator[Batch]:
    """Questions of all episodes, shuffled anew in each epoch."""
    num = len(batch.answers)
    for _ in range(config.epochs):
        order = rng.permutation(num)
        for start in range(0, num, config.batch_size):
            chosen = order[start : start + config.batch_size]
            yield Batch(*(getattr(batch, name)[chosen] for name in Batch.__dataclass_fields__))


def _check(loss: float, network: str, setting: str) -> None:
    if not np.isfinite(loss):
        raise TrainingError(f"the {network} loss of PPO is not a number; lower {setting}")
