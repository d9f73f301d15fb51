"""Behavioural cloning of priorities: linear regression of a network's outputs."""

from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.errors import ConfigError, TrainingError
from mlgo.learn.bc.config import BCConfig
from mlgo.learn.bc.dataset import chosen_questions
from mlgo.learn.bc.loop import CloneData, CloneResult, fit_network, import_keras, perceptron
from mlgo.learn.bc.weights import Weighting, question_weights
from mlgo.policy.features import Normalisation, check_features
from mlgo.policy.priority_policy import output_of, range_inputs


def priority_data(
    trace: pa.Table,
    projects: set[str],
    normalise: Normalisation,
    max_steps_per_module: int,
    seed: int,
    weighting: Weighting = "question",
    balance: bool = False,
) -> CloneData:
    """Select a trace's questions of some projects, a bounded number per module, and normalise them.

    Args:
        trace: ``artifacts.trace_schema`` rows.
        projects: projects to take.
        normalise: from raw features to inputs; its features must all be in the trace.
        max_steps_per_module: larger modules are sampled, reproducibly.
        seed: root seed of the sampling.
        weighting: what a module's total weight follows, see `question_weights`.
        balance: must be off, since hardly two answers are the same.

    Returns:
        Inputs as of `range_inputs`; the answers are the outputs that give the recorded priorities.

    Raises:
        ConfigError: ``balance`` is on.
        PolicyError: the trace lacks a feature.
    """
    if balance:
        raise ConfigError("bc.balance: priorities are no kinds of answers that could weigh the same; set it to false")
    check_features(normalise.features, trace.column_names, "the trace")
    trace, modules = chosen_questions(trace, projects, max_steps_per_module, seed)
    raw = recorded_numbers(trace, normalise.features)
    answers = output_of(trace["answer"].to_numpy())
    inputs = range_inputs(normalise(raw), raw, normalise.features)
    return CloneData(inputs, answers, question_weights(modules, answers, weighting, balance))


def recorded_numbers(trace: pa.Table, features: tuple[str, ...]) -> np.ndarray:
    """Features in a trace, float32 [num_steps, num_features]."""
    columns = [trace[name].to_numpy().astype(np.float32) for name in features]
    return np.stack(columns, axis=1)


def clone_priorities(
    train: CloneData, validation: CloneData, hidden: list[int], config: BCConfig, seed: int
) -> CloneResult:
    """Fit a network to the outputs of a recorded rule; stop when validation no longer improves.

    Accuracy is how often two questions in a row are put in the rule's order.

    Args:
        train: what to imitate.
        validation: questions of other projects.
        hidden: units of each hidden layer.
        config: epochs, patience, batches, step size.
        seed: of the initial weights and of the order of the batches.

    Raises:
        TrainingError: no data, or a loss that is not a number.
    """
    for data, what in ((train, "training"), (validation, "validation")):
        if not len(data.answers):
            raise TrainingError(f"the {what} trace holds no question; add {what} projects with functions")
    keras = import_keras(seed)
    network = regression_network(keras, train.inputs.shape[1], hidden, config.learning_rate)
    seen, unseen = ((data.inputs, data.answers[:, None], data.weights) for data in (train, validation))
    return fit_network(keras, network, seen, unseen, config, "order_accuracy")


def regression_network(keras: Any, num_inputs: int, hidden: list[int], learning_rate: float) -> Any:
    """A Keras perceptron with ReLU and one output, ready to be fitted by least squares with Adam."""

    def order_accuracy(wanted: Any, found: Any) -> Any:
        """Share of neighbours in a batch that are in the right order, of those that are not equal."""
        wanted, found = wanted[1:] - wanted[:-1], found[1:] - found[:-1]
        differing = keras.ops.cast(wanted != 0, "float32")
        right = keras.ops.cast(wanted * found > 0, "float32")
        return keras.ops.sum(right) / keras.ops.maximum(keras.ops.sum(differing), 1.0)

    network = perceptron(keras, (num_inputs,), hidden)
    optimizer = keras.optimizers.Adam(learning_rate)
    network.compile(optimizer=optimizer, loss=keras.losses.MeanSquaredError(), metrics=[order_accuracy])
    return network
