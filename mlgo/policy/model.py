"""What a policy scores actions by: a shape, such as layer widths, and numbers that make a model of it."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mlgo.host.actions import ActionSpace
from mlgo.host.actions.space import Scaling
from mlgo.host.log import Header


class Model(Protocol):
    """Gives one number for each row of inputs, the logit of an action."""

    def logits(self, inputs: np.ndarray) -> Any:
        """Map ``[..., num_inputs]`` to ``float32 [...]``."""
        ...

    def terms(self, inputs: np.ndarray) -> Any:
        """Sum of all terms without signs, ``float32 [...]``: rounding is a share of it; 0 where nothing is rounded."""
        ...

    def quick(self, actions: ActionSpace, header: Header, scaling: Scaling) -> Callable[[bytes], Any] | None:
        """A quicker way from one raw observation to its logit, to the same bit; None without one."""
        ...


class Shape(Protocol):
    """What all models of a kind and size have in common; the rest is one flat vector."""

    @property
    def num_inputs(self) -> int:
        """Inputs of a model."""
        ...

    @property
    def num_params(self) -> int:
        """Length of the flat vector."""
        ...

    def model(self, vector: np.ndarray) -> Model:
        """Make a model of a flat vector, float32 [num_params].

        Raises:
            PolicyError: it does not make one.
        """
        ...
