"""Decision trees: what every compile of a module has shown, kept so that none is done twice."""

from mlgo.replay.store import ReplayStore, TreeKey, leaf_of, prune, stores
from mlgo.replay.tree import DecisionTree, Leaf, Walk

__all__ = ["DecisionTree", "Leaf", "ReplayStore", "TreeKey", "Walk", "leaf_of", "prune", "stores"]
