"""The clipped update: Schulman et al. 2017, "Proximal Policy Optimization Algorithms".

The formulas take and give tensors; TensorFlow is loaded by the time they are called.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.config import PPOConfig
from mlgo.errors import TrainingError
from mlgo.learn.ppo.network import ActorCritic


@dataclass(frozen=True)
class Batch:
    """Questions of all episodes of an iteration, one after another.

    Attributes:
        inputs: float32 [num_questions, num_features].
        answers: float32 [num_questions], 0 or 1.
        log_probabilities: float32 [num_questions], of the answers under the policy that gave them.
        advantages: float32 [num_questions].
        returns: float32 [num_questions], what the value network should have said.
    """

    inputs: np.ndarray
    answers: np.ndarray
    log_probabilities: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray


def log_probability(logits: Any, answers: Any) -> Any:
    """Logarithm of the probability of answers 0 or 1 when 1 has the probability ``sigmoid(logit)``."""
    from keras import ops

    return -ops.softplus((1.0 - 2.0 * answers) * logits)


def entropy(logits: Any) -> Any:
    """Entropy of the answer, in nats: 0 for a sure policy, ln 2 for a coin."""
    from keras import ops

    return ops.softplus(logits) - logits * ops.sigmoid(logits)


def clipped_surrogate(ratio: Any, advantages: Any, clip_range: float) -> Any:
    """``min(ratio A, clip(ratio, 1 - range, 1 + range) A)``: nothing is gained by moving further than the range."""
    from keras import ops

    return ops.minimum(ratio * advantages, ops.clip(ratio, 1.0 - clip_range, 1.0 + clip_range) * advantages)


def approximate_kl(log_ratio: Any) -> Any:
    """Mean of ``ratio - 1 - log ratio``, an estimate of the divergence from the old policy that is never negative."""
    from keras import ops

    return ops.mean(ops.expm1(log_ratio) - log_ratio)


class ClippedUpdate:
    """Several epochs over a batch; the networks change in place.

    Args:
        networks: what is trained.
        config: epochs, minibatches, clipping, bonus.
    """

    def __init__(self, networks: ActorCritic, config: PPOConfig) -> None:
        self._networks, self._config = networks, config
        self._policy_gradients, self._value_gradients = _gradient_functions(networks, config)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> dict[str, float]:
        """Do it once.

        The policy stops at the first minibatch on which it has moved further than ``max_kl``; the value network
        goes on.

        Args:
            batch: questions with advantages.
            rng: order of the questions.

        Returns:
            Means over the minibatches the policy saw: ``policy_loss``, ``entropy``, ``clip_fraction``; ``kl`` of the
            last of them; ``value_loss``, mean over all; ``policy_steps`` taken.

        Raises:
            TrainingError: a loss is not a number, or a weight is not one in the end.
        """
        records: list[dict[str, float]] = []
        value_losses: list[float] = []
        steps, moved_too_far = 0, False
        for part in _minibatches(batch, self._config, rng):
            if not moved_too_far:
                tensors, gradients = self._policy_gradients(
                    part.inputs, part.answers, part.log_probabilities, part.advantages
                )
                records.append({name: float(tensor) for name, tensor in tensors.items()})
                _check(records[-1]["policy_loss"], "policy", "ppo.learning_rate")
                moved_too_far = records[-1]["kl"] > self._config.max_kl
                if not moved_too_far:
                    self._networks.policy_optimizer.apply(gradients)
                    steps += 1
            loss, gradients = self._value_gradients(part.inputs, part.returns)
            value_losses.append(float(loss))
            _check(value_losses[-1], "value", "ppo.value_learning_rate")
            self._networks.value_optimizer.apply(gradients)
        for network, name, setting in (
            (self._networks.policy, "policy", "ppo.learning_rate"),
            (self._networks.value, "value", "ppo.value_learning_rate"),
        ):
            if not all(np.isfinite(part).all() for part in network.get_weights()):
                raise TrainingError(f"the {name} network of PPO has weights that are not numbers; lower {setting}")
        means = {name: float(np.mean([record[name] for record in records])) for name in records[0]}
        return {**means, "kl": records[-1]["kl"], "value_loss": float(np.mean(value_losses)), "policy_steps": steps}


def _gradient_functions(networks: ActorCritic, config: PPOConfig) -> tuple[Any, Any]:
    """Compiled functions that give losses and gradients of a minibatch of any size."""
    import tensorflow as tf
    from keras import ops

    matrix = tf.TensorSpec((None, networks.policy.input_shape[1]), tf.float32)
    vector = tf.TensorSpec((None,), tf.float32)

    def policy_gradients(inputs: Any, answers: Any, old: Any, advantages: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = networks.policy(inputs)[:, 0]
            log_ratio = log_probability(logits, answers) - old
            ratio = ops.exp(log_ratio)
            gain = ops.mean(clipped_surrogate(ratio, advantages, config.clip_range))
            doubt = ops.mean(entropy(logits))
            loss = -gain - config.entropy_bonus * doubt
        clipped = ops.mean(ops.cast(ops.abs(ratio - 1.0) > config.clip_range, "float32"))
        record = {"policy_loss": loss, "entropy": doubt, "kl": approximate_kl(log_ratio), "clip_fraction": clipped}
        return record, tape.gradient(loss, networks.policy.trainable_variables)

    def value_gradients(inputs: Any, returns: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(networks.value(inputs)[:, 0] - returns))
        return loss, tape.gradient(loss, networks.value.trainable_variables)

    return (
        tf.function(policy_gradients, input_signature=[matrix, vector, vector, vector]),
        tf.function(value_gradients, input_signature=[matrix, vector]),
    )


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
