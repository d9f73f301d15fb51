"""Behavioural cloning of answers that choose a column: multinomial logistic regression over the legal ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.errors import TrainingError
from mlgo.learn.answers import ILLEGAL
from mlgo.learn.bc.config import BCConfig
from mlgo.learn.bc.dataset import chosen_questions
from mlgo.learn.bc.loop import CloneResult, fit_network, import_keras
from mlgo.learn.bc.weights import Weighting, question_weights
from mlgo.policy.column_policy import column_inputs
from mlgo.policy.features import Normalisation, check_features
from mlgo.policy.vocabulary import columns_of
from mlgo.tasks.regalloc_evict import MASK


@dataclass(frozen=True)
class ColumnData:
    """Questions with their legal columns, moved to the front.

    Attributes:
        inputs: float16 [num_steps, max_legal, num_inputs], see `column_inputs`; anything where a step has fewer.
        legal: bool [num_steps, max_legal].
        answers: int64 [num_steps], positions among the legal columns.
        weights: float32 [num_steps], mean 1; None where all questions count the same.
    """

    inputs: np.ndarray
    legal: np.ndarray
    answers: np.ndarray
    weights: np.ndarray | None = None


def column_data(
    trace: pa.Table,
    projects: set[str],
    normalise: Normalisation,
    max_steps_per_module: int,
    seed: int,
    weighting: Weighting = "question",
    balance: bool = False,
) -> ColumnData:
    """Select a trace's questions of some projects, a bounded number per module, and normalise them.

    Args:
        trace: ``artifacts.trace_schema`` rows.
        projects: projects to take.
        normalise: from raw features to inputs; its features must all be in the trace.
        max_steps_per_module: larger modules are sampled, reproducibly.
        seed: root seed of the sampling.
        weighting: what a module's total weight follows, see `question_weights`.
        balance: whether each column gets the same total weight.

    Raises:
        PolicyError: the trace lacks a feature.
    """
    check_features([MASK, *normalise.features], trace.column_names, "the trace")
    trace, modules = chosen_questions(trace, projects, max_steps_per_module, seed)
    legal, chosen = columns_of(trace, MASK) != 0, trace["answer"].to_numpy()
    front = np.argsort(~legal, axis=1, kind="stable")[:, : max(1, int(legal.sum(axis=1).max(initial=0)))]
    features = np.stack([_values(trace, name, legal.shape[1]) for name in normalise.features], axis=2)
    inputs = column_inputs(normalise(features)).astype(np.float16)
    return ColumnData(
        np.take_along_axis(inputs, front[:, :, None], axis=1),
        np.take_along_axis(legal, front, axis=1),
        (front == chosen[:, None]).argmax(axis=1),
        question_weights(modules, chosen, weighting, balance),
    )


def _values(trace: pa.Table, name: str, num_columns: int) -> np.ndarray:
    """A feature in all columns, float32 [num_steps, num_columns]."""
    if pa.types.is_fixed_size_list(trace.schema.field(name).type):
        return columns_of(trace, name).astype(np.float32)
    return np.repeat(trace[name].to_numpy().astype(np.float32)[:, None], num_columns, axis=1)


def clone_columns(
    train: ColumnData, validation: ColumnData, hidden: list[int], config: BCConfig, seed: int
) -> CloneResult:
    """Fit a network, shared by all columns, to recorded answers; stop when validation no longer improves.

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
            raise TrainingError(f"the {what} trace holds no question; add {what} projects with larger functions")
    keras = import_keras(seed)
    network = column_network(keras, train.inputs.shape[2], hidden, config.learning_rate)
    return fit_network(
        keras,
        network,
        ([train.inputs, train.legal], train.answers, train.weights),
        ([validation.inputs, validation.legal], validation.answers, validation.weights),
        config,
        "sparse_categorical_accuracy",
    )


def column_network(keras: Any, num_inputs: int, hidden: list[int], learning_rate: float) -> Any:
    """Network over ``[columns, inputs]`` and ``[columns]`` (legal or not) that gives a logit for each column."""
    inputs, legal = keras.Input((None, num_inputs)), keras.Input((None,))
    values = inputs
    for units in hidden:
        values = keras.layers.Dense(units, activation="relu")(values)
    outputs = keras.layers.Reshape((-1,))(keras.layers.Dense(1)(values))
    network = keras.Model([inputs, legal], outputs + (1.0 - legal) * ILLEGAL)
    network.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return network
