"""Response trees: what every compile of a module has shown, kept so that none is done twice."""

from mlgo.pool.trees.module import ModuleTrees, leaf_of, visits_of
from mlgo.pool.trees.store import ReplayStore, TreeKey, outdated_folders, stores
from mlgo.pool.trees.tree import FunctionLeaf, ModuleLeaf, ResponseTree, Walk

__all__ = [
    "FunctionLeaf",
    "ModuleLeaf",
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
