"""A multi-layer perceptron as one flat vector of weights; its hidden units may stay in groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions import ActionSpace, Scaling
from mlgo.host.log import Header
from mlgo.policy.exact import exact_network
from mlgo.policy.native import native_logit

Layers = list[tuple[Any, Any]]
"""Matrix [inputs, outputs] and bias [outputs] of each layer; [groups, inputs, outputs] of a group if it has several."""


@dataclass(frozen=True)
class Architecture:
    """Layer widths of a perceptron with ReLU between layers and one output.

    The flat vector holds, layer by layer, the matrix row-major and then the bias.

    Attributes:
        widths: inputs, hidden layers, 1.
        groups: parts of equal size in which the units of every hidden layer stand; between two of these layers, a unit
            sees those of its own group alone. So several networks side by side need no zeros between them.
    """

    widths: tuple[int, ...]
    groups: int = 1

    def __post_init__(self) -> None:
        if self.groups < 1 or any(units % self.groups for units in self.widths[1:-1]):
            raise PolicyError(f"hidden layers of {self.widths} do not divide into {self.groups} groups")

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of each layer's matrix: ``(inputs, outputs)``, or ``(groups, inputs, outputs)`` of a group."""
        return [
            (inputs, outputs)
            if self.groups == 1 or number in (0, len(self.widths) - 2)
            else (self.groups, inputs // self.groups, outputs // self.groups)
            for number, (inputs, outputs) in enumerate(pairwise(self.widths))
        ]

    @property
    def num_inputs(self) -> int:
        """Inputs of the first layer."""
        return self.widths[0]

    @property
    def num_params(self) -> int:
        """Length of the flat vector."""
        return sum(prod(shape) + outputs for shape, outputs in zip(self.shapes, self.widths[1:], strict=True))

    def layer_slices(self) -> list[slice]:
        """Part of the flat vector that belongs to each layer."""
        slices, start = [], 0
        for shape, outputs in zip(self.shapes, self.widths[1:], strict=True):
            slices.append(slice(start, start + prod(shape) + outputs))
            start = slices[-1].stop
        return slices

    def unflatten(self, vector: np.ndarray) -> Layers:
        """View a flat vector [num_params] as matrix and bias of each layer, see `Layers`."""
        if vector.shape != (self.num_params,):
            groups = f" in {self.groups} groups" if self.groups > 1 else ""
            raise PolicyError(f"{vector.size} weights where layers {self.widths}{groups} need {self.num_params}")
        layers = []
        for shape, part in zip(self.shapes, self.layer_slices(), strict=True):
            weights, size = vector[part], prod(shape)
            layers.append((weights[:size].reshape(shape), weights[size:]))
        return layers

    def fresh(self, rng: np.random.Generator) -> np.ndarray:
        """Weights to begin with, float32 [num_params], of a network without groups: its outputs are 0.

        Matrices of hidden layers are normal with variance ``2 / inputs`` (He et al. 2015), all others and biases zeros.
        """
        weights = np.zeros(self.num_params, np.float32)
        for matrix, _ in self.unflatten(weights)[:-1]:
            matrix[:] = rng.standard_normal(matrix.shape) * np.sqrt(2.0 / len(matrix))
        return weights

    def ungrouped(self, vector: np.ndarray) -> tuple["Architecture", np.ndarray]:
        """The same function with full matrices, zeros between groups: widths, and float32 [num_params of them]."""
        layers = [(matrix if matrix.ndim == 2 else _diagonal(matrix), bias) for matrix, bias in self.unflatten(vector)]
        return Architecture(self.widths), flatten(layers)

    def model(self, vector: np.ndarray) -> "Perceptron":
        """The network of a flat vector, float32 [num_params]; raises as `unflatten`."""
        return Perceptron(self.unflatten(vector))


@dataclass(frozen=True)
class Perceptron:
    """A network with its weights."""

    layers: Layers

    def logits(self, inputs: np.ndarray) -> Any:
        """Map ``float32 [..., num_inputs]`` to ``float32 [...]``."""
        return logits(self.layers, inputs)

    def terms(self, inputs: np.ndarray) -> Any:
        """Sum of all terms without their signs, ``float32 [...]``."""
        return logits(self._magnitudes, np.abs(inputs))

    def quick(self, actions: ActionSpace, header: Header, scaling: Scaling) -> Callable[[bytes], Any] | None:
        """In C for a compiler that sends integers alone; else by the action space's own way, None if it has none."""
        if (exact := exact_network(actions, header, scaling, self.layers)) is not None:
            return native_logit(exact) or exact.logit
        first, *rest = self.layers
        if (first_layer := actions.first_layer(header, scaling, *first)) is None:
            return None
        if not rest:
            return lambda payload: first_layer(payload)[0]
        maximum = np.maximum
        return lambda payload: logits(rest, maximum(values := first_layer(payload), 0.0, out=values))

    @cached_property
    def _magnitudes(self) -> Layers:
        return [(np.abs(matrix), np.abs(bias)) for matrix, bias in self.layers]


def flatten(layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Join matrices and biases, see `Layers`, into one flat vector, float32 [num_params]."""
    return np.concatenate([part.astype(np.float32).ravel() for layer in layers for part in layer])


def logits(layers: Sequence[tuple[Any, Any]], inputs: Any, xp: Any = np) -> Any:
    """Forward pass: ``float32 [..., num_inputs]`` to ``float32 [...]``; ``xp`` is ``numpy`` or ``keras.ops``."""
    values = inputs
    for matrix, bias in layers[:-1]:
        values = _product(values, matrix, xp)
        values += bias
        values = np.maximum(values, 0.0, out=values) if xp is np else xp.maximum(values, 0.0)
    matrix, bias = layers[-1]
    return (values @ matrix + bias)[..., 0]


def _diagonal(blocks: np.ndarray) -> np.ndarray:
    """[groups, inputs, outputs] as one matrix [groups * inputs, groups * outputs]."""
    groups, inputs, outputs = blocks.shape
    matrix = np.zeros((groups, inputs, groups, outputs), blocks.dtype)
    matrix[range(groups), :, range(groups)] = blocks
    return matrix.reshape(groups * inputs, groups * outputs)


def _product(values: Any, matrix: Any, xp: Any) -> Any:
    """``[..., inputs]`` with a layer's matrix; with one of groups, each group by itself."""
    if len(matrix.shape) == 2:
        return values @ matrix
    groups, inputs, outputs = matrix.shape
    apart = xp.swapaxes(xp.reshape(values, (-1, groups, inputs)), 0, 1)
    found = xp.swapaxes(xp.matmul(apart, matrix), 0, 1)
    return xp.reshape(found, (*values.shape[:-1], groups * outputs))
