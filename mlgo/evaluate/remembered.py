"""The best compile of a module that the response trees hold."""

import hashlib
from collections.abc import Iterable

import numpy as np

from mlgo.base.files import content_hash
from mlgo.corpus.store import Module
from mlgo.evaluate.episodes import Episode, episode
from mlgo.policy.policy import Policy
from mlgo.pool.trees import Leaf, ReplayStore, Walk


def best_of_each(store: ReplayStore, modules: Iterable[Module], policy: Policy, objective: str) -> list[Episode]:
    """The smallest known compile of every module of which one is known, in their order; see `best_remembered`."""
    found = (best_remembered(store, one.key, one.sha256, policy, objective) for one in modules)
    return [one for one in found if one is not None]


def episodes_hash(episodes: Iterable[Episode]) -> str:
    """SHA-256 of what was taken from the trees, for the provenance: modules, scores and answers."""
    rows = [[one.module, one.score, hashlib.sha256(one.answers.tobytes()).hexdigest()] for one in episodes]
    return hashlib.sha256(content_hash(rows).encode()).hexdigest()


def best_remembered(store: ReplayStore, module: str, sha256: str, policy: Policy, objective: str) -> Episode | None:
    """Find the smallest known compile; of equals the one whose answers come first, whatever order they came in.

    Args:
        store: trees of the compiler and flags in use.
        module: key of the module.
        sha256: hash of its bitcode.
        policy: says how questions are seen.
        objective: which size counts, by the names of ``compile.objective``.

    Returns:
        None when nothing is known of the module, or only its functions one by one.

    Raises:
        ArtifactError: its tree is damaged.
        PolicyError: the compiler did not offer a feature.
    """
    loaded = store.load(sha256)
    if loaded is None or (tree := loaded[1].whole) is None:
        return None

    def order(walk: Walk) -> tuple[float, bytes]:
        assert isinstance(walk.leaf, Leaf)
        return walk.leaf.score(objective), walk.answers.astype(np.uint8).tobytes()

    best = min(tree.compiles(), key=order, default=None)
    result = loaded[1].result_of(loaded[0], [best], record=True) if best is not None else None
    return None if result is None else episode(module, result, policy, objective)
