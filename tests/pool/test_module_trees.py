"""Trees of modules whose functions are decided one by one, on a toy compiler."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.base.files import content_hash
from mlgo.errors import ReplayMismatch
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.objects.remarks import SpillCosts
from mlgo.pool.module_trees import ModuleTrees, visits_of
from mlgo.pool.response_tree import FunctionLeaf
from mlgo.pool.tree_store import ReplayStore, stores
from mlgo.pool.tree_tables import compiles_table
from tests.pool.toy_trees import HEADER, KEY, MODULE, NUM_FUNCTIONS, decide_by, functions_result

NAMES = [f"f{number}" for number in range(NUM_FUNCTIONS)]
FIRST = functions_result(5, 1)
POLICIES = st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=12)
SEEDS = st.integers(0, 20)


def grown(trees: ModuleTrees, policy: int, seed: int) -> None:
    visits = visits_of(functions_result(policy, seed), None)
    assert visits is not None
    trees.take_in(enumerate(visits))


def costs(walks) -> tuple[SpillCosts, ...] | None:
    """Costs of the module, None if a function's are not known."""
    if any(walk.leaf is None for walk in walks):
        return None
    return tuple(one for walk in walks for one in walk.leaf.spills)


@given(POLICIES, SEEDS)
def test_side_by_side_as_one_by_one(policies, seed):
    trees = ModuleTrees(HEADER, NAMES)
    for policy in policies:
        for place, walk in enumerate(trees.walk(decide_by(policy))):
            alone = trees.by_context[place].walk(decide_by(policy))
            assert alone.leaf == walk.leaf
            np.testing.assert_array_equal(alone.nodes, walk.nodes)
            np.testing.assert_array_equal(alone.answers, walk.answers)
        grown(trees, policy, seed)


@given(POLICIES, st.integers(0, 2**16 - 1), SEEDS)
def test_costs_of_a_mixture_of_known_functions_are_those_of_a_compile(policies, other, seed):
    """Whenever all functions are known, costs are the compile's, in its order; also where no compile was like it."""
    trees = ModuleTrees(HEADER, NAMES)
    for policy in policies:
        grown(trees, policy, seed)
        assert costs(trees.walk(decide_by(policy))) == functions_result(policy, seed).spills
    walks = trees.walk(decide_by(other))
    assert costs(walks) in (None, functions_result(other, seed).spills)
    asked = functions_result(other, seed).answer_prefix()
    for known, whole in zip(trees.path_of(walks).contexts, asked.contexts, strict=True):
        assert whole.checks[: len(known.checks)] == known.checks
        assert whole.answers.startswith(known.answers)
        assert not known.is_whole or known == whole


@settings(max_examples=30)
@given(POLICIES, SEEDS)
def test_a_new_process_finds_everything_though_known_questions_are_not_recorded(tmp_path_factory, policies, seed):
    root = tmp_path_factory.mktemp("trees")
    writer = ReplayStore(root, KEY)
    for policy in policies:
        loaded = writer.load(MODULE)
        path = loaded.path_of(loaded.walk(decide_by(policy))) if loaded else None
        writer.insert(MODULE, functions_result(policy, seed, path), path)
    trees = ReplayStore(root, KEY).load(MODULE)
    assert (trees.header, trees.contexts, trees.whole) == (HEADER, tuple(NAMES), None)
    assert trees.num_nodes == writer.load(MODULE).num_nodes
    for policy in policies:
        assert costs(trees.walk(decide_by(policy))) == functions_result(policy, seed).spills


def test_known_functions_of_a_file_that_was_pruned_meanwhile_are_left_out(tmp_path):
    """What is whole in the compile is added, what builds upon the lost trees is not."""
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, functions_result(0, 3))
    trees = store.load(MODULE)
    path = trees.path_of(trees.walk(decide_by(2**16 - 1)))
    num_known = [len(one.checks) for one in path.contexts]
    assert any(num_known)
    next(tmp_path.rglob("*.tree")).unlink()
    store.insert(MODULE, functions_result(2**16 - 1, 3, path), path)
    left = store.load(MODULE)
    for tree, known in zip(left.by_context if left else [], num_known, strict=bool(left)):
        assert bool(tree.leaves) == (known == 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": FIRST.contexts[::-1], "spills": FIRST.spills[::-1]}, "context 0 is 'f3', before it was 'f0'"),
        ({"contexts": (*FIRST.contexts, ("f9", 0))}, "context 4 is 'f9', before it was None"),
        ({"spills": FIRST.spills[1:]}, "module abcd1234abcd1234: f.: . known answers led to another"),
    ],
)
def test_another_order_or_other_costs_are_hard_errors(tmp_path, change, message):
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, FIRST)
    store.insert(MODULE, FIRST)
    with pytest.raises(ReplayMismatch, match=message):
        store.insert(MODULE, replace(FIRST, **change))


@pytest.mark.parametrize(
    "spills", [(SpillCosts("g", 1, 1.0),), (SpillCosts("f2", 1, 1.0), SpillCosts("f0", 1, 1.0))], ids=["whose", "order"]
)
def test_costs_that_cannot_be_told_apart_are_not_kept(tmp_path, spills):
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, replace(functions_result(5, 1), spills=spills))
    assert store.load(MODULE) is None


def test_a_function_that_is_visited_twice_at_once_is_one_and_later_again_is_not_kept(tmp_path):
    first = functions_result(0, 2)
    (name, count), *rest = first.contexts
    assert count > 0
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, replace(first, contexts=((name, 0), (name, count), *rest)))
    trees = store.load(MODULE)
    assert trees.contexts == tuple(NAMES)
    assert costs(trees.walk(decide_by(0))) == first.spills
    other = "e" * 64
    store.insert(other, replace(first, contexts=((name, count), *rest, (name, 0))))
    assert store.load(other) is None


def test_trees_that_are_full_stay_of_use(tmp_path, monkeypatch):
    monkeypatch.setattr("mlgo.pool.tree_store._MOST_FUNCTIONS_BYTES", 1)
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, functions_result(0, 3))
    size = store.file_bytes(MODULE)
    store.insert(MODULE, functions_result(2**16 - 1, 3))
    assert store.file_bytes(MODULE) == size
    assert costs(store.load(MODULE).walk(decide_by(0))) == functions_result(0, 3).spills


def test_files_of_another_version_are_left_alone(tmp_path):
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, functions_result(0, 3))
    assert [one.key for one in stores(tmp_path)] == [KEY]
    path = next(tmp_path.rglob("key.json"))
    key = json.loads(path.read_text())
    for other in ({**key, "records": 2}, {name: value for name, value in key.items() if name != "records"}):
        path.write_text(json.dumps(other))
        path = path.parent.rename(tmp_path / content_hash(other)) / path.name
        assert stores(tmp_path) == []


def test_export_names_functions_and_their_costs():
    trees = ModuleTrees(HEADER, NAMES)
    for policy in (0, 2**16 - 1):
        grown(trees, policy, 2)
    table = compiles_table(MODULE, trees)
    rows = table.to_pylist()
    expected = {
        (place, tuple(walk.answers.tolist())): SPILL_COST.of_functions(walk.leaf.spills)
        for place, tree in enumerate(trees.by_context)
        for walk in tree.compiles()
        if len(walk.nodes)
    }
    found = {}
    for number in {row["compile"] for row in rows}:
        own = [row for row in rows if row["compile"] == number]
        assert [row["step"] for row in own] == list(range(len(own)))
        found[int(own[0]["context"][1:]), tuple(row["answer"] for row in own)] = own[0]["spill_cost"]
    assert found == expected
    assert table.schema.field("a").type == pa.int64()
    assert {type(leaf) for leaf in trees.by_context[0].leaves.values()} == {FunctionLeaf}
