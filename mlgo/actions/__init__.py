"""Action spaces: how a network describes actions, and how observations enter it; one file for each."""

from mlgo.actions.binary import Binary
from mlgo.actions.categorical import Categorical, mask_of
from mlgo.actions.scalar import Scalar
from mlgo.actions.space import ActionSpace, Observation
from mlgo.actions.subset import Subset

__all__ = ["ActionSpace", "Binary", "Categorical", "Observation", "Scalar", "Subset", "mask_of"]
