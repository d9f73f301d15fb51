"""A decision tree as one flat vector of numbers.

Each question goes from the root to a leaf. At a node it goes left if its feature is at most the threshold. Thresholds
are whole numbers below 2^24, so an int64 and the float32 nearest to it always go the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions import ActionSpace, Scaling
from mlgo.host.log import Header

LARGEST = 2**24
"""Up to this size float32 holds every whole number."""


@dataclass(frozen=True)
class Tree:
    """A decision tree; nodes are numbered so that children come after their parents, and 0 is the root."""

    feature: np.ndarray  # int64 [num_nodes], input that a node asks about; 0 in leaves
    threshold: np.ndarray  # float32 [num_nodes], whole numbers; 0 in leaves
    left: np.ndarray  # int64 [num_nodes], next node where the input is at most the threshold; in leaves the node itself
    right: np.ndarray  # int64 [num_nodes], next node where it is larger; in leaves the node itself
    value: np.ndarray  # float32 [num_nodes], logit at a leaf; 0 in inner nodes

    @property
    def leaves(self) -> np.ndarray:
        """Nodes that are leaves, int64 [num_leaves], from left to right if numbered in preorder."""
        return np.flatnonzero(self.left == np.arange(len(self.left)))

    def flat(self) -> np.ndarray:
        """The flat vector of this tree, float32 [num_params]: one array after another."""
        return np.concatenate([getattr(self, field.name) for field in fields(self)], dtype=np.float32)

    def apply(self, inputs: np.ndarray) -> np.ndarray:
        """The leaf that each question ends at: ``[num, num_inputs]`` to ``int64 [num]``."""
        rows, node = np.arange(len(inputs)), np.zeros(len(inputs), np.int64)
        while True:
            low = inputs[rows, self.feature[node]] <= self.threshold[node]
            below = np.where(low, self.left[node], self.right[node])
            if np.array_equal(below, node):
                return node
            node = below

    def logits(self, inputs: np.ndarray) -> Any:
        """Map ``[..., num_inputs]`` to ``float32 [...]``."""
        if inputs.ndim == 1:
            return self._walk(inputs.tolist())
        return self.value[self.apply(inputs.reshape(-1, inputs.shape[-1]))].reshape(inputs.shape[:-1])

    def terms(self, inputs: np.ndarray) -> Any:
        """Zeros, ``float32 [...]``: nothing is rounded."""
        return np.zeros(inputs.shape[:-1], np.float32)

    def quick(self, actions: ActionSpace, header: Header, scaling: Scaling) -> Callable[[bytes], Any] | None:
        """None: reading an observation takes longer than the way to a leaf."""
        return None

    @cached_property
    def _walk(self) -> Callable[[list[float]], Any]:
        """From the inputs of one question to its logit; plain numbers are quicker than arrays here."""
        feature, threshold, left, right = (
            one.tolist() for one in (self.feature, self.threshold, self.left, self.right)
        )
        value = list(self.value)

        def walk(inputs: list[float]) -> Any:
            node = 0
            while (below := left[node] if inputs[feature[node]] <= threshold[node] else right[node]) != node:
                node = below
            return value[node]

        return walk


@dataclass(frozen=True)
class Branching:
    """Size of a decision tree."""

    num_inputs: int
    num_nodes: int

    @property
    def num_params(self) -> int:
        """Length of the flat vector, see `Tree.flat`."""
        return len(fields(Tree)) * self.num_nodes

    def model(self, vector: np.ndarray) -> Tree:
        """Read a tree from its flat vector, float32 [num_params]."""
        if vector.shape != (self.num_params,) or not self.num_nodes:
            raise PolicyError(f"{vector.size} numbers where a tree of {self.num_nodes} nodes has {self.num_params}")
        *whole, value = vector.reshape(-1, self.num_nodes)
        if not all(np.array_equal(one, np.round(one)) and np.all(np.abs(one) < LARGEST) for one in whole):
            raise PolicyError(f"nodes and thresholds of a tree must be whole numbers below {LARGEST}; distil it again")
        feature, _, left, right = (one.astype(np.int64) for one in whole)
        nodes = np.arange(self.num_nodes)
        inner = left != nodes
        children = np.sort(np.concatenate([left[inner], right[inner]]))
        is_tree = (
            np.array_equal(children, nodes[1:])  # each but the root is the child of one
            and np.all(left[inner] > nodes[inner])
            and np.all(right[inner] > nodes[inner])
            and np.array_equal(right[~inner], nodes[~inner])
        )
        if not is_tree or not np.all((feature >= 0) & (feature < self.num_inputs)):
            raise PolicyError(f"nodes do not make a tree over {self.num_inputs} features; distil it again")
        return Tree(feature, whole[1], left, right, value)
