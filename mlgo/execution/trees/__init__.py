"""Decision trees: what every compile of a module has shown, kept so that none is done twice."""

from mlgo.execution.trees.forest import Forest, leaf_of, visits_of
from mlgo.execution.trees.store import ReplayStore, TreeKey, outdated_folders, stores
from mlgo.execution.trees.tree import DecisionTree, FunctionLeaf, Leaf, Walk

__all__ = [
    "DecisionTree",
    "Forest",
    "FunctionLeaf",
    "Leaf",
    "ReplayStore",
    "TreeKey",
    "Walk",
    "leaf_of",
    "outdated_folders",
    "stores",
    "visits_of",
]
