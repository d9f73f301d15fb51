"""One round's cloning with Keras, from the weights of the round before; of any kind of answers."""

from dataclasses import dataclass

import numpy as np

from mlgo.errors import TrainingError
from mlgo.host.actions import ActionSpace
from mlgo.learn.cloning import CloneData, cloning_network, import_keras, layers_of
from mlgo.policy.network import Architecture, flatten, logits


@dataclass(frozen=True)
class Fit:
    """A fitted clone.

    Attributes:
        weights: float32 [num_params].
        loss: weighted mean of the logistic loss on what was imitated.
        accuracy: share of the questions that it answers as the imitated trajectories did.
    """

    weights: np.ndarray
    loss: float
    accuracy: float


def fit(
    data: CloneData,
    actions: ActionSpace,
    architecture: Architecture,
    start: np.ndarray | None,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> Fit:
    """Imitate answers by regression, for those of a kind a logistic one, with Adam, a fixed number of epochs.

    The result depends on the arguments alone, not on what was fitted before.

    Args:
        data: what to imitate.
        actions: says what the network's outputs mean.
        architecture: layer widths.
        start: float32 [num_params], where to start; None draws fresh weights.
        epochs: passes over the data.
        batch_size: questions per gradient step.
        learning_rate: Adam step size.
        seed: of fresh weights and of the order of the batches, below 2^32.
    """
    if not len(data.answers):
        raise TrainingError("the best trajectories hold no question; raise bcmax.max_questions or bcmax.modules")
    keras = import_keras(seed)
    hidden = architecture.widths[1:-1]
    network = cloning_network(keras, actions, data.inputs.shape[-1], hidden, learning_rate)
    if start is not None:
        network.set_weights([part for layer in architecture.unflatten(start) for part in layer])
    network.fit(
        data.inputs,
        data.answers[:, None],
        sample_weight=data.weights,
        epochs=epochs,
        batch_size=batch_size,
        verbose=0,
    )
    layers = layers_of(network)
    found = Fit(flatten(layers), *measure(layers, actions, data))
    if not (np.isfinite(found.loss) and np.isfinite(found.weights).all()):
        raise TrainingError("the loss of BC-Max is not a number; lower bcmax.learning_rate")
    return found


def measure(layers: list[tuple[np.ndarray, np.ndarray]], actions: ActionSpace, data: CloneData) -> tuple[float, float]:
    """Weighted mean of ``-log_prob``, and unweighted share of the questions that are answered as in the data.

    Args:
        layers: float32 [inputs, outputs] and [outputs] of each.
        actions: what the network's outputs mean.
        data: questions with answers and weights.
    """
    from keras import ops

    found = actions.logits(lambda inputs: logits(layers, inputs)[..., None], data.inputs)
    losses = -np.asarray(actions.log_prob(ops, found, data.answers)).astype(np.float64)
    agreed = np.asarray(actions.agrees(ops, found, data.answers))
    return float(np.average(losses, weights=data.weights)), float(np.mean(agreed))
