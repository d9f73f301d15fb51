"""A multi-layer perceptron as one flat vector of weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlgo.actions import ActionSpace
from mlgo.actions.space import Scaling
from mlgo.core.errors import PolicyError
from mlgo.wire.log import Header

Layers = list[tuple[Any, Any]]
"""Matrix [inputs, outputs] and bias [outputs] of each layer."""


@dataclass(frozen=True)
class Architecture:
    """Layer widths of a perceptron with ReLU between layers and one output.

    The flat vector holds, layer by layer, the matrix ``[inputs, outputs]`` row-major and then the bias.

    Attributes:
        widths: inputs, hidden layers, 1.
    """

    widths: tuple[int, ...]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """``(inputs, outputs)`` of each layer."""
        return list(zip(self.widths[:-1], self.widths[1:], strict=True))

    @property
    def num_inputs(self) -> int:
        """Inputs of the first layer."""
        return self.widths[0]

    @property
    def num_params(self) -> int:
        """Length of the flat vector."""
        return sum(inputs * outputs + outputs for inputs, outputs in self.shapes)

    def layer_slices(self) -> list[slice]:
        """Part of the flat vector that belongs to each layer."""
        slices, start = [], 0
        for inputs, outputs in self.shapes:
            slices.append(slice(start, start + inputs * outputs + outputs))
            start = slices[-1].stop
        return slices

    def unflatten(self, vector: np.ndarray) -> Layers:
        """View a flat vector as ``(matrix [inputs, outputs], bias [outputs])`` per layer.

        Raises:
            PolicyError: wrong length.
        """
        if vector.shape != (self.num_params,):
            raise PolicyError(f"{vector.size} weights where layers {self.widths} need {self.num_params}")
        layers = []
        for (inputs, outputs), part in zip(self.shapes, self.layer_slices(), strict=True):
            weights = vector[part]
            layers.append((weights[: inputs * outputs].reshape(inputs, outputs), weights[inputs * outputs :]))
        return layers

    def model(self, vector: np.ndarray) -> "Perceptron":
        """The network of a flat vector, float32 [num_params]; raises as `unflatten`."""
        return Perceptron(self.unflatten(vector))


@dataclass(frozen=True)
class Perceptron:
    """A network with its weights.

    Attributes:
        layers: matrix and bias of each.
    """

    layers: Layers

    def logits(self, inputs: np.ndarray) -> Any:
        """Map ``float32 [..., num_inputs]`` to ``float32 [...]``."""
        return logits(self.layers, inputs)

    def terms(self, inputs: np.ndarray) -> Any:
        """Sum of all terms without their signs, ``float32 [...]``."""
        return logits(self._magnitudes, np.abs(inputs))

    def quick(self, actions: ActionSpace, header: Header, scaling: Scaling) -> Callable[[bytes], Any] | None:
        """By the action space's own way through the first layer; None if it has none."""
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
    """Join matrices [inputs, outputs] and biases [outputs] into one flat vector, float32 [num_params]."""
    return np.concatenate([part.astype(np.float32).ravel() for layer in layers for part in layer])


def logits(layers: Sequence[tuple[Any, Any]], inputs: Any, xp: Any = np) -> Any:
    """Forward pass: ``float32 [..., num_inputs]`` to ``float32 [...]``; ``xp`` is ``numpy`` or ``keras.ops``."""
    values = inputs
    for matrix, bias in layers[:-1]:
        values = values @ matrix
        values += bias
        values = np.maximum(values, 0.0, out=values) if xp is np else xp.maximum(values, 0.0)
    matrix, bias = layers[-1]
    return (values @ matrix + bias)[..., 0]
