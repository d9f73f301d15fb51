"""Trees of another store, merged: the same as having done its compiles here. On toy compilers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.errors import ReplayMismatch
from mlgo.host.session import CompileResult
from mlgo.pool.module_trees import ModuleTrees
from mlgo.pool.tree_store import ReplayStore
from tests.pool.toy_trees import COMPILERS, KEY, MODULE, decide_by, functions_result, result

POLICIES = st.lists(st.integers(0, 2**16 - 1), max_size=10)

Compiler = Callable[[int, int], CompileResult]


def filled(root: Path, compiler: Compiler, policies: list[int], seed: int = 5) -> ReplayStore:
    store = ReplayStore(root, KEY)
    for policy in policies:
        store.insert(MODULE, compiler(policy, seed))
    return store


def merged(store: ReplayStore, other: ReplayStore) -> int:
    loaded = other.load(MODULE)
    return store.merge(MODULE, loaded) if loaded else 0


def trees(root: Path) -> ModuleTrees | None:
    return ReplayStore(root, KEY).load(MODULE)


def known_compiles(trees: ModuleTrees | None) -> list[set]:
    """All that each tree holds, without the numbers of nodes, which depend on the order of compiles."""
    return [
        {(tree.observations_at(walk.nodes).tobytes(), walk.answers.tobytes(), walk.leaf) for walk in tree.compiles()}
        for tree in (trees.by_context if trees else [])
    ]


@COMPILERS
@settings(max_examples=40)
@given(here=POLICIES, there=POLICIES, asked=st.integers(0, 2**16 - 1), seed=st.integers(0, 20))
def test_as_if_compiled_here(tmp_path_factory, compiler, here, there, asked, seed):
    root = tmp_path_factory.mktemp("trees")
    store = filled(root / "here", compiler, here, seed)
    before = known_compiles(trees(root / "here"))
    new = merged(store, filled(root / "there", compiler, there, seed))
    filled(root / "expected", compiler, here + there, seed)
    found, expected = trees(root / "here"), trees(root / "expected")
    assert known_compiles(found) == known_compiles(expected)
    assert new == sum(map(len, known_compiles(expected))) - sum(map(len, before))
    if found is None or expected is None:
        assert not here + there
        return
    assert (found.contexts, found.num_nodes) == (expected.contexts, expected.num_nodes)
    assert [one.leaf for one in found.walk(decide_by(asked))] == [one.leaf for one in expected.walk(decide_by(asked))]
    for walk, other in zip(found.walk(decide_by(asked)), expected.walk(decide_by(asked)), strict=True):
        np.testing.assert_array_equal(walk.answers, other.answers)
    store.insert(MODULE, compiler(asked, seed))  # it goes on as ever, for itself and for others
    in_memory = store.load(MODULE)
    filled(root / "expected", compiler, [asked], seed)
    assert known_compiles(in_memory) == known_compiles(trees(root / "expected"))
    assert known_compiles(trees(root / "here")) == known_compiles(trees(root / "expected"))


@COMPILERS
def test_nothing_is_written_twice(tmp_path, compiler):
    store, other = filled(tmp_path / "here", compiler, [1, 2]), filled(tmp_path / "there", compiler, [3, 40000])
    assert merged(store, other) > 0
    (path,) = (tmp_path / "here").rglob("*.tree")
    data = path.read_bytes()
    assert merged(store, other) == merged(ReplayStore(tmp_path / "here", KEY), other) == 0
    assert path.read_bytes() == data


@COMPILERS
def test_a_contradiction_adds_nothing(tmp_path, compiler):
    store = filled(tmp_path / "here", compiler, [1])
    (path,) = (tmp_path / "here").rglob("*.tree")
    data, before = path.read_bytes(), known_compiles(trees(tmp_path / "here"))
    with pytest.raises(ReplayMismatch, match="module abcd1234"):
        merged(store, filled(tmp_path / "there", compiler, [40000, 1], seed=4))
    assert path.read_bytes() == data
    assert known_compiles(store.load(MODULE)) == before


def test_full_trees_of_functions_stay_as_they_are(tmp_path, monkeypatch):
    store = filled(tmp_path / "here", functions_result, [1])
    monkeypatch.setattr("mlgo.pool.tree_store._MOST_FUNCTIONS_BYTES", 1)
    assert merged(store, filled(tmp_path / "there", functions_result, [40000])) == 0


def test_large_trees_are_written_in_parts(tmp_path, monkeypatch):
    other = filled(tmp_path / "there", result, list(range(0, 2**16, 1499)), seed=2)
    monkeypatch.setattr("mlgo.pool.tree_store._PART_BYTES", 64)
    assert merged(ReplayStore(tmp_path / "here", KEY), other) == 26
    (path,) = (tmp_path / "here").rglob("*.tree")
    assert path.read_bytes().count(b"MLT3") > 5
    assert known_compiles(trees(tmp_path / "here")) == known_compiles(trees(tmp_path / "there"))
