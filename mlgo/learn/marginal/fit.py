"""Fit a network of marginal costs to equations, held to the heuristic where the equations say little."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.core.errors import TrainingError
from mlgo.core.seeding import generator
from mlgo.learn.bc import CloneData
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.equations import Equations, Evidence, equations
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture, flatten

_ANCHOR_BATCH = 2048
_LABEL_SMOOTHING = 0.1
_MIN_COMPILES = 2
_MAX_COMPILES = 16
"""Compiles of one module in one step, so that modules with much evidence do not rule."""


@dataclass(frozen=True)
class FitResult:
    """A fitted network.

    Attributes:
        weights: float32 [num_params], from the epoch with the lowest loss on held-out modules.
        record: ``epochs``, ``loss`` of the last one, ``held_out_loss`` of the best, ``start_loss`` (held-out, before).
    """

    weights: np.ndarray
    record: dict[str, float]


def fit_costs(
    start: np.ndarray,
    shape: Architecture,
    evidence: Sequence[Evidence],
    heuristic: CloneData,
    anchor: float,
    config: MarginalConfig,
    seed: int,
    *names: str | int,
) -> FitResult:
    """Fit the network from a start.

    The network's output g is the policy's logit; the change in size by inlining is ``-config.unit_bytes * g``. The
    loss is Huber's on the centred equations, in percent of each module's size, plus ``anchor`` times the cross-entropy
    towards the heuristic's answers.

    Args:
        start: float32 [num_params].
        shape: layer widths.
        evidence: compiles by module; a share of the modules is held out to end the fit.
        heuristic: its questions and answers, drawn in proportion to their weights.
        anchor: weight of the cross-entropy.
        config: step sizes, epochs, units.
        seed: root seed of the order of everything.
        *names: purpose within the training, for example the round.

    Raises:
        TrainingError: no module has compiles that differ, or a loss that is not a number.
    """
    usable = [one for one in evidence if len(one.episodes) >= _MIN_COMPILES]
    if not usable:
        raise TrainingError(
            "no training module has two compiles with different answers; raise marginal.compiles or marginal.flip_share"
        )
    rng = generator(seed, "marginal", "fit", *names)
    order = rng.permutation(len(usable))
    num_held = round(config.held_out_share * len(usable)) if len(usable) > 1 else 0
    held, train = ([usable[int(i)] for i in part] for part in (order[:num_held], order[num_held:]))
    if not held:
        held = train
    network, draw_rows = _CostNetwork(start, shape, config), _row_sampler(heuristic)
    width = shape.widths[0]
    held_batches = [
        equations([(one.baseline, one.episodes[-2 * _MAX_COMPILES :]) for one in held[i : i + 16]], width)
        for i in range(0, len(held), 16)
    ]
    best, best_loss = start, network.mean_loss(held_batches)
    record = {"start_loss": best_loss, "loss": best_loss, "held_out_loss": best_loss, "epochs": 0.0}
    since_best = 0
    for epoch in range(1, config.max_epochs + 1):
        losses = []
        permuted = rng.permutation(len(train))
        for i in range(0, len(train), config.batch_modules):
            batch = [train[int(j)] for j in permuted[i : i + config.batch_modules]]
            rows = draw_rows(rng)
            losses.append(network.step(equations([_drawn(one, rng) for one in batch], width), heuristic, rows, anchor))
        held_loss = network.mean_loss(held_batches)
        record = {**record, "loss": float(np.mean(losses)), "epochs": float(epoch)}
        if not np.isfinite([record["loss"], held_loss]).all():
            raise TrainingError("the loss of the marginal costs is not a number; lower marginal.learning_rate")
        since_best += 1
        if held_loss < best_loss:
            best, best_loss, since_best = network.weights(), held_loss, 0
        if since_best == config.patience:
            break
    return FitResult(best, {**record, "held_out_loss": best_loss})


def _drawn(one: Evidence, rng: np.random.Generator) -> tuple[float, Sequence[Any]]:
    if len(one.episodes) <= _MAX_COMPILES:
        return one.baseline, one.episodes
    chosen = rng.choice(len(one.episodes), _MAX_COMPILES, replace=False)
    return one.baseline, [one.episodes[int(i)] for i in chosen]


def _row_sampler(heuristic: CloneData) -> Callable[[np.random.Generator], np.ndarray]:
    """Draws positions of questions in proportion to their weights: int64 [_ANCHOR_BATCH]."""
    count = len(heuristic.answers)
    if heuristic.weights is None:
        return lambda rng: rng.integers(0, count, _ANCHOR_BATCH)
    ends = np.cumsum(heuristic.weights, dtype=np.float64)  # once, not in each step
    return lambda rng: np.minimum(np.searchsorted(ends, ends[-1] * rng.random(_ANCHOR_BATCH), side="right"), count - 1)


class _CostNetwork:
    """The network, its optimiser and its loss in TensorFlow."""

    def __init__(self, start: np.ndarray, shape: Architecture, config: MarginalConfig) -> None:
        tf = import_tensorflow()
        self._tf, self._config = tf, config
        self._variables = [tf.Variable(part) for layer in shape.unflatten(start) for part in layer]
        self._optimizer = tf.keras.optimizers.Adam(config.learning_rate)
        self._optimizer.build(self._variables)
        spec, width = tf.TensorSpec, shape.widths[0]
        batch = [
            spec((None, width), tf.float16),
            spec((None,), tf.int32),
            spec((None,), tf.int32),
            spec((None,), tf.float32),
            spec((None,), tf.float32),
            spec((), tf.int32),
        ]
        anchor = [spec((None, width), tf.float32), spec((None,), tf.float32), spec((), tf.float32)]
        self._loss = tf.function(self._equation_loss, input_signature=batch)
        self._step = tf.function(self._descend, input_signature=[*batch, *anchor])

    def step(self, batch: Equations, heuristic: CloneData, rows: np.ndarray, anchor: float) -> float:
        """One gradient step; returns the loss of the equations."""
        weight = np.float32(anchor)
        return float(self._step(*_fields(batch), heuristic.inputs[rows], heuristic.answers[rows], weight))

    def mean_loss(self, batches: Sequence[Equations]) -> float:
        """Loss per compile."""
        counts = [len(batch.sizes) for batch in batches]
        return float(np.average([float(self._loss(*_fields(batch))) for batch in batches], weights=counts))

    def weights(self) -> np.ndarray:
        """float32 [num_params]."""
        parts = [variable.numpy() for variable in self._variables]
        return flatten(list(zip(parts[::2], parts[1::2], strict=True)))

    def _logits(self, inputs: Any) -> Any:
        tf, layers = self._tf, list(zip(self._variables[::2], self._variables[1::2], strict=True))
        for matrix, bias in layers[:-1]:
            inputs = tf.nn.relu(inputs @ matrix + bias)
        matrix, bias = layers[-1]
        return (inputs @ matrix + bias)[:, 0]

    def _equation_loss(
        self, inputs: Any, compile_of: Any, module_of: Any, sizes: Any, percent_per_byte: Any, num_modules: Any
    ) -> Any:
        tf, huber = self._tf, self._config.huber_percent
        gains = self._config.unit_bytes * self._logits(tf.cast(inputs, tf.float32))
        predicted = -percent_per_byte * tf.math.unsorted_segment_sum(gains, compile_of, tf.size(sizes))
        difference = predicted - sizes
        centre = tf.math.unsorted_segment_mean(difference, module_of, num_modules)
        error = tf.abs(difference - tf.gather(centre, module_of))
        return tf.reduce_mean(tf.where(error < huber, 0.5 * error**2, huber * (error - 0.5 * huber)))

    def _descend(self, *args: Any) -> Any:
        tf = self._tf
        *batch, inputs, answers, anchor = args
        with tf.GradientTape() as tape:
            loss = self._equation_loss(*batch)
            smooth = (1.0 - _LABEL_SMOOTHING) * answers + 0.5 * _LABEL_SMOOTHING
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=smooth, logits=self._logits(inputs))
            total = loss + anchor * tf.reduce_mean(entropy)
        self._optimizer.apply_gradients(zip(tape.gradient(total, self._variables), self._variables, strict=True))
        return loss


def _fields(batch: Equations) -> tuple[Any, ...]:
    return (
        batch.inputs,
        batch.compile_of,
        batch.module_of,
        batch.sizes,
        batch.percent_per_byte,
        np.int32(batch.num_modules),
    )
