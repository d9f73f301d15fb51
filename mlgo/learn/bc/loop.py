"""Behavioural cloning with Keras: logistic regression of the answers on the normalised features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.core.errors import TrainingError
from mlgo.learn.bc.config import BCConfig
from mlgo.learn.tensorflow import import_tensorflow


@dataclass(frozen=True)
class CloneData:
    """Questions and answers to imitate.

    Attributes:
        inputs: float32 [num_steps, num_features], normalised.
        answers: float32 [num_steps], 0 or 1.
        weights: float32 [num_steps], how much each question counts, mean 1; None where all count the same.
    """

    inputs: np.ndarray
    answers: np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class CloneResult:
    """A cloned network.

    Attributes:
        layers: ``(matrix, bias)`` of each layer, from the epoch with the lowest validation loss.
        history: one record per epoch: ``epoch``, ``loss``, ``validation_loss``, ``validation_accuracy``.
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    history: list[dict[str, float]]


def clone(train: CloneData, validation: CloneData, hidden: list[int], config: BCConfig, seed: int) -> CloneResult:
    """Fit a network to recorded answers, stop when validation no longer improves.

    Args:
        train: what to imitate.
        validation: questions of other projects.
        hidden: units of each hidden layer.
        config: epochs, patience, batches, step size.
        seed: of the initial weights and of the order of the batches.

    Raises:
        TrainingError: no data, only one kind of answer, or a loss that is not a number.
    """
    _check(train, "training")
    _check(validation, "validation", both_answers=False)
    keras = import_keras(seed)
    network = dense_network(keras, train.inputs.shape[1], hidden, config.learning_rate)
    seen, unseen = ((data.inputs, data.answers[:, None], data.weights) for data in (train, validation))
    return fit_network(keras, network, seen, unseen, config, "binary_accuracy")


def fit_network(
    keras: Any,
    network: Any,
    train: tuple[Any, np.ndarray, np.ndarray | None],
    validation: tuple[Any, np.ndarray, np.ndarray | None],
    config: BCConfig,
    accuracy: str,
) -> CloneResult:
    """Fit a compiled Keras network of dense layers, stop when validation no longer improves.

    Args:
        keras: what `import_keras` gave.
        network: what to fit.
        train: inputs, answers and weights of the questions, the last None where all count the same.
        validation: the same of other projects.
        config: epochs, patience, batches.
        accuracy: Keras' name of the metric.

    Raises:
        TrainingError: the loss is not a number.
    """
    stop = keras.callbacks.EarlyStopping("val_loss", patience=config.patience, restore_best_weights=True)
    inputs, answers, weights = train
    fit = network.fit(
        inputs,
        answers,
        sample_weight=weights,
        validation_data=validation[:2] if validation[2] is None else validation,
        epochs=config.max_epochs,
        batch_size=config.batch_size,
        callbacks=[stop],
        verbose=0,
    )
    history = _history(fit.history, accuracy)
    if not all(np.isfinite([record["loss"], record["validation_loss"]]).all() for record in history):
        raise TrainingError("the cloning loss is not a number; lower bc.learning_rate")
    return CloneResult(layers_of(network), history)


def dense_network(keras: Any, num_inputs: int, hidden: list[int], learning_rate: float) -> Any:
    """A Keras perceptron with ReLU and one logit, ready to be fitted by logistic regression with Adam."""
    network = perceptron(keras, (num_inputs,), hidden)
    network.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    return network


def perceptron(keras: Any, shape: tuple[int | None, ...], hidden: Sequence[int]) -> Any:
    """A Keras network with ReLU and one output over the last axis of inputs of some shape, not yet compiled."""
    layers = [keras.layers.Dense(units, activation="relu") for units in hidden]
    return keras.Sequential([keras.Input(shape), *layers, keras.layers.Dense(1)])


def layers_of(network: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """``(matrix, bias)`` of each layer of a `dense_network`."""
    weights = [np.asarray(array) for array in network.get_weights()]
    return list(zip(weights[::2], weights[1::2], strict=True))


def import_keras(seed: int) -> Any:
    """Import Keras on TensorFlow and seed all of its generators; what follows depends on the seed alone."""
    import_tensorflow()
    import keras

    keras.utils.set_random_seed(seed)
    return keras


def _check(data: CloneData, what: str, *, both_answers: bool = True) -> None:
    if not len(data.answers):
        raise TrainingError(f"the {what} trace holds no question; add {what} projects with calls that may be inlined")
    if both_answers and len(np.unique(data.answers)) < 2:
        raise TrainingError(f"the {what} trace holds only one kind of answer; there is nothing to learn from it")


def _history(logs: dict[str, list[float]], accuracy: str) -> list[dict[str, float]]:
    columns = zip(logs["loss"], logs["val_loss"], logs[f"val_{accuracy}"], strict=True)
    return [
        {"epoch": epoch, "loss": loss, "validation_loss": validation_loss, "validation_accuracy": accuracy}
        for epoch, (loss, validation_loss, accuracy) in enumerate(columns, 1)
    ]
