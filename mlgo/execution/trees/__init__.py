"""Response trees: what every compile of a module has shown, kept so that none is done twice."""

from mlgo.execution.trees.module import ModuleTrees, leaf_of, visits_of
from mlgo.execution.trees.store import ReplayStore, TreeKey, outdated_folders, stores
from mlgo.execution.trees.tree import FunctionLeaf, Leaf, ResponseTree, Walk

__all__ = [
    "FunctionLeaf",
    "Leaf",
    "ModuleTrees",
    "ReplayStore",
    "ResponseTree",
    "TreeKey",
    "Walk",
    "leaf_of",
    "outdated_folders",
    "stores",
    "visits_of",
]
