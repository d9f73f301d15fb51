"""Action spaces: how a network describes actions, and how observations enter it; one file for each."""

from mlgo.host.actions.binary import Binary
from mlgo.host.actions.categorical import Categorical, Subset, mask_of
from mlgo.host.actions.scalar import Scalar
from mlgo.host.actions.space import ActionSpace, Observation

__all__ = ["ActionSpace", "Binary", "Categorical", "Observation", "Scalar", "Subset", "mask_of"]
