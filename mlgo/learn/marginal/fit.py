"""Fit a network of marginal costs to equations, held to the heuristic where the equations say little."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.base.threads import in_threads
from mlgo.errors import TrainingError
from mlgo.learn.base import Fitted
from mlgo.learn.cloning import CloneData
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.evidence import CompileFile, EquationFile, Equations, Evidence, OfModule
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture, flatten


def cost_shape(shape: Architecture) -> Architecture:
    """Layer widths of a network of costs, by those of its policy."""
    return Architecture((*shape.widths[:-1], 2))


def as_costs(policy: np.ndarray, shape: Architecture) -> np.ndarray:
    """Costs that lead to a policy's answers, float32 [num_params of `cost_shape`]: its logit is all growth."""
    *hidden, (matrix, bias) = shape.unflatten(policy)
    return flatten([*hidden, (np.hstack([-matrix, 0.0 * matrix]), np.concatenate([-bias, 0.0 * bias]))])


def as_policy(costs: np.ndarray, shape: Architecture) -> np.ndarray:
    """The policy, float32 [num_params], whose logit is what both outputs save together: minus growth and saving."""
    *hidden, (matrix, bias) = cost_shape(shape).unflatten(costs)
    return flatten([*hidden, (-matrix.sum(axis=1, keepdims=True), -bias.sum(keepdims=True))])


_ANCHOR_BATCH = 2048
_LABEL_SMOOTHING = 0.1
_MIN_COMPILES = 2
_MAX_COMPILES = 32
"""Compiles of one module in a fit, so that modules with much evidence do not rule."""
_HELD_BATCH = 16


@dataclass(frozen=True)
class CostFitter:
    """Fits networks of costs to compiles.

    A network has two outputs, growth g of the caller and saving s by the callee, both in units of
    ``config.unit_bytes``; -(g + s) is the policy's logit. The loss is Huber's on the centred equations of modules, in
    percent of each module's size, plus ``config.function_weight`` times that on those of functions, in units, plus
    the round's anchor times the cross-entropy towards the heuristic's answers.

    The shape is of a member's policy.
    """

    shape: Architecture
    heuristic: CloneData
    compiles: CompileFile
    config: MarginalConfig
    seed: int

    def fit_members(
        self, costs: np.ndarray, evidence: Mapping[str, Evidence], round_: int, threads: int = 1
    ) -> list[Fitted]:
        """Fit each member, float32 [num_members, num_params of `cost_shape`], from where its last fit has led to."""
        import_tensorflow(threads)  # once, before the threads
        members = range(len(costs))
        return list(in_threads(lambda member: self.fit(costs[member], evidence, round_, member), members, threads))

    def fit(self, start: np.ndarray, evidence: Mapping[str, Evidence], round_: int, member: int) -> Fitted:
        """Fit a member. What it holds out to end its fits is the same in all rounds: no start has seen it.

        Returns:
            Costs from the epoch with the lowest loss on held-out modules, with ``epochs``, ``loss`` of the last,
            ``held_out_loss`` of the best, ``start_loss`` (held-out, before).
        """
        config, rng = self.config, generator(self.seed, "marginal", "fit", round_, member)
        held, train = self._split(evidence, member)
        network = _CostNetwork(start, self.shape, config)
        with EquationFile(self.compiles) as file:
            held_out, fitted = ([_drawn(file, one, rng) for one in part] for part in (held, train))
            best, best_loss = start, network.mean_loss(_batches(file, held_out))
            record = {"start_loss": best_loss, "loss": best_loss, "held_out_loss": best_loss, "epochs": 0.0}
            since_best, anchor = 0, config.anchors[min(round_, len(config.anchors) - 1)]
            for epoch in range(1, (config.later_epochs if round_ else config.max_epochs) + 1):
                losses, permuted = [], rng.permutation(len(fitted))
                for i in range(0, len(fitted), config.batch_modules):
                    batch = file.batch([fitted[j] for j in permuted[i : i + config.batch_modules]])
                    losses.append(network.step(batch, self.heuristic, self._draw_rows(rng), anchor))
                held_loss = network.mean_loss(_batches(file, held_out))
                record = {**record, "loss": float(np.mean(losses)), "epochs": float(epoch)}
                if not np.isfinite([record["loss"], held_loss]).all():
                    raise TrainingError("the loss of the marginal costs is not a number; lower marginal.learning_rate")
                since_best += 1
                if held_loss < best_loss:
                    best, best_loss, since_best = network.weights(), held_loss, 0
                if since_best == config.patience:
                    break
        return best, {**record, "held_out_loss": best_loss}

    def _split(self, evidence: Mapping[str, Evidence], member: int) -> tuple[list[Evidence], list[Evidence]]:
        """Modules that a member holds out, and those that it is fitted to."""
        usable = {name: one for name, one in evidence.items() if len(one.compiles) >= _MIN_COMPILES}
        if not usable:
            raise TrainingError(
                "no training module has two compiles with different answers; raise marginal.compiles or "
                "marginal.flip_share"
            )
        share = self.config.held_out_share
        draws = {name: generator(self.seed, "marginal", "held out", member, name).random() for name in usable}
        held = [one for name, one in usable.items() if draws[name] < share] or list(usable.values())
        return held, [one for name, one in usable.items() if draws[name] >= share] or held

    def _draw_rows(self, rng: np.random.Generator) -> np.ndarray:
        """Positions of the heuristic's questions, in proportion to their weights: int64 [_ANCHOR_BATCH]."""
        count, ends = len(self.heuristic.answers), self._weight_ends
        if ends is None:
            return rng.integers(0, count, _ANCHOR_BATCH)
        return np.minimum(np.searchsorted(ends, ends[-1] * rng.random(_ANCHOR_BATCH), side="right"), count - 1)

    @cached_property
    def _weight_ends(self) -> np.ndarray | None:
        """Running sum of the questions' weights, once and not in each step."""
        weights = self.heuristic.weights
        return None if weights is None else np.cumsum(weights, dtype=np.float64)


def _drawn(file: EquationFile, one: Evidence, rng: np.random.Generator) -> OfModule:
    chosen = rng.permutation(len(one.compiles))[:_MAX_COMPILES]
    return file.make(one.baseline, [one.compiles[int(i)] for i in np.sort(chosen)])


def _batches(file: EquationFile, modules: Sequence[OfModule]) -> Iterator[Equations]:
    """Equations of held-out modules, one batch in memory at a time."""
    return (file.batch(modules[i : i + _HELD_BATCH]) for i in range(0, len(modules), _HELD_BATCH))


class _CostNetwork:
    """The network, its optimiser and its loss in TensorFlow."""

    def __init__(self, start: np.ndarray, shape: Architecture, config: MarginalConfig) -> None:
        tf = import_tensorflow()
        self._tf, self._config = tf, config
        self._variables = [tf.Variable(part) for layer in cost_shape(shape).unflatten(start) for part in layer]
        self._optimizer = tf.keras.optimizers.Adam(config.learning_rate)
        self._optimizer.build(self._variables)
        spec, width = tf.TensorSpec, shape.widths[0]
        sums = [spec((None,), tf.int32), spec((None,), tf.float32), spec((None,), tf.int32)]
        batch = [spec((None, width), tf.float16), *(3 * sums), spec((None,), tf.float32)]
        anchor = [spec((None, width), tf.float32), spec((None,), tf.float32), spec((), tf.float32)]
        self._loss = tf.function(self._equation_loss, input_signature=batch)
        self._step = tf.function(self._descend, input_signature=[*batch, *anchor])

    def step(self, batch: Equations, heuristic: CloneData, rows: np.ndarray, anchor: float) -> float:
        """One gradient step; returns the loss of the equations."""
        return float(self._step(*batch.arrays, heuristic.inputs[rows], heuristic.answers[rows], np.float32(anchor)))

    def mean_loss(self, batches: Iterable[Equations]) -> float:
        """Loss per compile."""
        found = [(float(self._loss(*batch.arrays)), len(batch.modules.values)) for batch in batches]
        losses, counts = zip(*found, strict=True)
        return float(np.average(losses, weights=counts))

    def weights(self) -> np.ndarray:
        """Costs, float32 [num_params of `cost_shape`]."""
        parts = [variable.numpy() for variable in self._variables]
        return flatten(list(zip(parts[::2], parts[1::2], strict=True)))

    def _outputs(self, inputs: Any) -> Any:
        """Growth and saving, float32 [num_questions, 2], in units."""
        tf, layers = self._tf, list(zip(self._variables[::2], self._variables[1::2], strict=True))
        for matrix, bias in layers[:-1]:
            inputs = tf.nn.relu(inputs @ matrix + bias)
        matrix, bias = layers[-1]
        return inputs @ matrix + bias

    def _equation_loss(self, inputs: Any, *others: Any) -> Any:
        tf, config = self._tf, self._config
        *terms, percent_per_byte = others
        modules, callers, callees = terms[:3], terms[3:6], terms[6:]
        outputs = self._outputs(tf.cast(inputs, tf.float32))
        percent = percent_per_byte * config.unit_bytes * self._errors(outputs[:, 0] + outputs[:, 1], *modules)
        loss = tf.reduce_mean(_huber(tf, percent, config.huber_percent))
        huber_units = config.huber_bytes / config.unit_bytes
        functions = sum(
            tf.reduce_sum(_huber(tf, self._errors(outputs[:, column], *side), huber_units))
            for column, side in enumerate((callers, callees))
        )
        return loss + config.function_weight * functions / tf.cast(tf.size(percent), tf.float32)

    def _errors(self, outputs: Any, of: Any, values: Any, group: Any) -> Any:
        """Predicted minus known sums, centred within their groups, float32 [num_sums], in units."""
        tf = self._tf
        num_sums = tf.size(values)
        sums = tf.math.unsorted_segment_sum(outputs, of, tf.maximum(num_sums, 1))  # negative ones belong to none
        difference = sums[:num_sums] - values / self._config.unit_bytes  # gradients of no sums at all would fail
        num_groups = tf.reduce_max(tf.concat([group, [-1]], axis=0)) + 1
        return difference - tf.gather(tf.math.unsorted_segment_mean(difference, group, num_groups), group)

    def _descend(self, *args: Any) -> Any:
        tf = self._tf
        *batch, inputs, answers, anchor = args
        with tf.GradientTape() as tape:
            loss = self._equation_loss(*batch)
            smooth = (1.0 - _LABEL_SMOOTHING) * answers + 0.5 * _LABEL_SMOOTHING
            logits = -tf.reduce_sum(self._outputs(inputs), axis=1)
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=smooth, logits=logits)
            total = loss + anchor * tf.reduce_mean(entropy)
        self._optimizer.apply_gradients(zip(tape.gradient(total, self._variables), self._variables, strict=True))
        return loss


def _huber(tf: Any, error: Any, limit: float) -> Any:
    size = tf.abs(error)
    return tf.where(size < limit, 0.5 * size**2, limit * (size - 0.5 * limit))
