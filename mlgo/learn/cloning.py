"""Cloning with Keras: the log-probability of recorded actions is raised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mlgo.base.config import Positive, PositiveFloat, Section
from mlgo.errors import TrainingError
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import Fitted
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture, Layers, flatten, logits


class BCConfig(Section):
    """Behavioural cloning of the default policy."""

    max_epochs: Positive
    """Upper limit of passes over the trace."""
    patience: Positive
    """Passes without progress on the validation projects before it stops."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size."""
    max_steps_per_module: Positive
    """Questions taken from one module at most, so that large modules do not rule."""
    weighting: Literal["question", "module", "sqrt"]
    """What a module's total weight follows: its questions, nothing (all modules weigh the same), or their root."""
    balance: bool
    """Give both answers the same total weight."""


@dataclass(frozen=True)
class CloneData:
    """Observations and actions to imitate."""

    inputs: np.ndarray  # float [num_steps, ...], see `ActionSpace.demonstrations`
    answers: np.ndarray  # [num_steps], actions as learners take them
    # float32 [num_steps], how much each question counts, mean 1; None where all count the same.
    weights: np.ndarray | None = None


def fit_network(
    keras: Any, network: Any, train: CloneData, validation: CloneData, config: BCConfig
) -> list[dict[str, float]]:
    """Fit a compiled Keras network, stop when validation no longer improves, and keep the best epoch's weights.

    Returns one record per epoch: ``epoch``, ``loss``, ``validation_loss``, and ``validation_accuracy`` where there is
    one.
    """
    stop = keras.callbacks.EarlyStopping("val_loss", patience=config.patience, restore_best_weights=True)
    unseen = (validation.inputs, validation.answers[:, None], validation.weights)
    logs = network.fit(
        train.inputs,
        train.answers[:, None],
        sample_weight=train.weights,
        validation_data=unseen[:2] if validation.weights is None else unseen,
        epochs=config.max_epochs,
        batch_size=config.batch_size,
        callbacks=[stop],
        verbose=0,
    ).history
    names = {"loss": "loss", "val_loss": "validation_loss", "val_accuracy": "validation_accuracy"}
    columns = {name: logs[key] for key, name in names.items() if key in logs}
    epochs = zip(*columns.values(), strict=True)
    return [{"epoch": epoch, **dict(zip(columns, one, strict=True))} for epoch, one in enumerate(epochs, 1)]


def cloning_network(
    keras: Any, actions: ActionSpace, num_seen: int, hidden: Sequence[int], learning_rate: float
) -> Any:
    """A Keras perceptron with ReLU and one output, ready to be fitted with Adam to actions [num, 1]."""
    num_inputs = num_seen - actions.masked
    network = perceptron(keras, actions.input_shape(num_inputs), hidden)
    if actions.masked:
        seen = keras.Input(actions.seen_shape(num_inputs))
        network = keras.Model(seen, actions.logits(network, seen))
    optimizer = keras.optimizers.Adam(learning_rate)
    network.compile(optimizer=optimizer, loss=actions.loss(keras), metrics=[actions.accuracy(keras)])
    return network


def perceptron(keras: Any, shape: tuple[int | None, ...], hidden: Sequence[int]) -> Any:
    """A Keras network with ReLU and one output over the last axis of inputs of some shape, not yet compiled."""
    layers = [keras.layers.Dense(units, activation="relu") for units in hidden]
    return keras.Sequential([keras.Input(shape), *layers, keras.layers.Dense(1)])


def layers_of(network: Any) -> Layers:
    """``(matrix [inputs, outputs], bias [outputs])`` of each layer of a Keras network, float32."""
    weights = [np.asarray(array) for array in network.get_weights()]
    return list(zip(weights[::2], weights[1::2], strict=True))


def import_keras(seed: int) -> Any:
    """Import Keras on TensorFlow and seed all of its generators; what follows depends on the seed alone."""
    import_tensorflow()
    import keras

    keras.utils.set_random_seed(seed)
    return keras


def fit(
    data: CloneData,
    actions: ActionSpace,
    architecture: Architecture,
    start: np.ndarray | None,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> Fitted:
    """Imitate answers by regression, for those of a kind a logistic one, with Adam, a fixed number of epochs.

    The result depends on the arguments alone, not on what was fitted before.

    Args:
        start: float32 [num_params], where to start; None draws fresh weights.
        seed: of fresh weights and of the order of the batches, below 2^32.

    Returns:
        Weights, with ``loss``, the weighted mean of the logistic loss on what was imitated, and ``accuracy``, the share
        of the questions that are answered as the imitated trajectories did.
    """
    if not len(data.answers):
        raise TrainingError("the best trajectories hold no question; raise bcmax.max_questions or bcmax.modules")
    keras = import_keras(seed)
    network = cloning_network(keras, actions, data.inputs.shape[-1], architecture.widths[1:-1], learning_rate)
    if start is not None:
        network.set_weights([part for layer in architecture.unflatten(start) for part in layer])
    network.fit(
        data.inputs, data.answers[:, None], sample_weight=data.weights, epochs=epochs, batch_size=batch_size, verbose=0
    )
    layers = layers_of(network)
    weights, figures = flatten(layers), measure(layers, actions, data)
    if not (np.isfinite(figures["loss"]) and np.isfinite(weights).all()):
        raise TrainingError("the loss of BC-Max is not a number; lower bcmax.learning_rate")
    return weights, figures


def measure(layers: Layers, actions: ActionSpace, data: CloneData) -> dict[str, float]:
    """``loss``, weighted mean of ``-log_prob``, and ``accuracy``, unweighted share that is answered as in the data.

    Args:
        layers: float32 [inputs, outputs] and [outputs] of each.
        actions: what the network's outputs mean.
        data: questions with answers and weights.
    """
    from keras import ops

    found = actions.logits(lambda inputs: logits(layers, inputs)[..., None], data.inputs)
    losses = -np.asarray(actions.log_prob(ops, found, data.answers)).astype(np.float64)
    agreed = np.asarray(actions.agrees(ops, found, data.answers))
    return {"loss": float(np.average(losses, weights=data.weights)), "accuracy": float(np.mean(agreed))}
