"""Trees on disk: shared, killed, damaged."""

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.errors import ArtifactError, ReplayMismatch
from mlgo.host.session import CompileResult
from mlgo.pool.module_trees import WHOLE_MODULE, Growth, ModuleTrees
from mlgo.pool.records import prune
from mlgo.pool.response_tree import Branch, ModuleLeaf
from mlgo.pool.tree_store import ReplayStore, decode_growth, encode_growth
from tests.fakes.scores import sizes
from tests.pool.toy_trees import HEADER, KEY, MODULE, WIDTH, decide_by, known, result, run


def the_file(root):
    (path,) = root.rglob("*.tree")
    return path


def recalled(store: ReplayStore, policy: int) -> ModuleLeaf | None:
    loaded = store.load(MODULE)
    assert loaded is not None
    assert loaded.header == HEADER
    return loaded.whole.walk(decide_by(policy)).leaf


@given(
    st.integers(-1, 2**40),
    st.integers(0, 127),
    st.integers(0, 20),
    st.integers(0, 2**31),
    st.none() | st.integers(0, 2**31),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_branches_survive_their_encoding(node, answer, num_new, size, dedup, truncated, random):
    observations = np.frombuffer(random.randbytes(num_new * WIDTH), np.uint8).reshape(num_new, WIDTH)
    answers = np.array([random.randrange(128) for _ in range(num_new)], np.int64)
    branch = Branch(node, answer, observations, answers, ModuleLeaf(sizes(size, size + 1, dedup), "ab" * 32, truncated))
    ((tree, back),) = decode_growth(encode_growth([Growth(0, branch)]), WIDTH, [""])
    assert tree == 0
    assert (back.node, back.answer, back.leaf) == (branch.node, branch.answer, branch.leaf)
    np.testing.assert_array_equal(back.observations.unpack(back.observations.packed), observations)
    np.testing.assert_array_equal(back.answers, answers)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=12), st.integers(0, 20))
def test_a_new_process_finds_everything(tmp_path_factory, policies, seed):
    root = tmp_path_factory.mktemp("trees")
    writer = ReplayStore(root, KEY)
    for policy in policies:
        writer.insert(MODULE, result(policy, seed))
    reader = ReplayStore(root, KEY)
    for policy in policies:
        assert recalled(reader, policy) == run(policy, seed)[2]


def test_observations_are_those_of_the_compiles_however_many_stay_packed(tmp_path):
    policies = range(0, 2**16, 2**16 // 40)
    writer, reader = ReplayStore(tmp_path, KEY), ReplayStore(tmp_path, KEY)
    for policy in policies:
        writer.insert(MODULE, result(policy, 5))
    for policy in (*policies, *policies):
        tree = reader.load(MODULE).whole
        walk = tree.walk(decide_by(policy))
        np.testing.assert_array_equal(tree.observations_at(walk.nodes), run(policy, 5)[0])


def test_observations_that_were_read_take_little_memory():
    observations = np.random.default_rng(0).integers(0, 50, (5000, 2)).view(np.uint8)
    branch = Branch(-1, 0, observations, np.zeros(5000, np.int64), ModuleLeaf(sizes(1, 1), "ab" * 32, False))
    trees = ModuleTrees(HEADER, WHOLE_MODULE)
    trees.add(decode_growth(encode_growth([Growth(0, branch)]), WIDTH, WHOLE_MODULE))
    assert trees.num_bytes < branch.answers.nbytes + observations.nbytes / 5
    np.testing.assert_array_equal(trees.whole.observations_at(np.arange(1000, 1010)), observations[1000:1010])


def test_other_keys_have_other_trees(tmp_path):
    ReplayStore(tmp_path, KEY).insert(MODULE, result(1, 1))
    assert ReplayStore(tmp_path, replace(KEY, size_stop_factor=2.0)).load(MODULE) is None


def test_two_stores_see_each_other(tmp_path):
    one, two = ReplayStore(tmp_path, KEY), ReplayStore(tmp_path, KEY)
    for policy in range(40):
        (one if policy % 2 else two).insert(MODULE, result(policy * 1231 % 2**16, 3))
    for policy in range(40):
        expected = run(policy * 1231 % 2**16, 3)[2]
        assert recalled(one, policy * 1231 % 2**16) == recalled(two, policy * 1231 % 2**16) == expected


def test_a_contradiction_names_the_module(tmp_path):
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, result(1, 1))
    with pytest.raises(ReplayMismatch, match="module abcd1234"):
        store.insert(MODULE, result(1, 2))


def test_a_record_cut_short_anywhere_loses_only_itself(tmp_path):
    store = ReplayStore(tmp_path, KEY)
    store.insert(MODULE, result(0, 5))
    path = the_file(tmp_path)
    intact = path.stat().st_size
    store.insert(MODULE, result(2**16 - 1, 5))
    whole = path.read_bytes()
    assert len(whole) > intact
    for length in range(intact, len(whole)):
        path.write_bytes(whole[:length])
        fresh = ReplayStore(tmp_path, KEY)
        assert recalled(fresh, 0) == run(0, 5)[2]
        assert recalled(fresh, 2**16 - 1) is None
        fresh.insert(MODULE, result(2**16 - 1, 5))
        assert path.read_bytes() == whole


def test_damage_is_reported(tmp_path):
    store = ReplayStore(tmp_path, KEY)
    for policy in (0, 2**16 - 1):
        store.insert(MODULE, result(policy, 5))
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="damaged at byte"):
        ReplayStore(tmp_path, KEY).load(MODULE)


def _write_many(root, start: int, count: int) -> None:
    store = ReplayStore(root, KEY)
    for policy in range(start, start + count):
        store.insert(MODULE, result(policy * 7919 % 2**16, 7))


@pytest.mark.slow
def test_concurrent_writers_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, 50 * i, 60)) for i in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    store = ReplayStore(tmp_path, KEY)
    for policy in range(210):
        assert recalled(store, policy * 7919 % 2**16) == run(policy * 7919 % 2**16, 7)[2]


def _write_for_ever(root, seed: int) -> None:
    store = ReplayStore(root, KEY)
    for policy in range(2**16):
        store.insert(f"{policy % 5}" * 64, result(policy * 7919 % 2**16, seed))


def test_a_killed_writer_leaves_a_store_that_opens(tmp_path):
    context = multiprocessing.get_context("spawn")
    for attempt in range(4):
        writer = context.Process(target=_write_for_ever, args=(tmp_path, 9))
        writer.start()
        deadline = time.monotonic() + 30
        while not list(tmp_path.rglob("*.tree")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05 * attempt)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        store = ReplayStore(tmp_path, KEY)
        for digit in range(5):
            store.load(f"{digit}" * 64)
            store.insert(f"{digit}" * 64, result(12345, 9))


def test_memory_is_bounded(tmp_path):
    store = ReplayStore(tmp_path, KEY, max_loaded_bytes=1)
    for digit in range(5):
        store.insert(f"{digit}" * 64, result(3, 9))
    assert len(store._loaded) <= 2
    assert store.load("0" * 64) is not None


def test_a_tree_pruned_while_it_is_loaded_starts_anew(tmp_path):
    one, two = ReplayStore(tmp_path, KEY), ReplayStore(tmp_path, KEY)
    for policy in (0, 2**16 - 1):
        one.insert(MODULE, result(policy, 5))
    assert recalled(two, 0) == run(0, 5)[2]
    assert prune(tmp_path, 0) != []
    assert ReplayStore(tmp_path, KEY).load(MODULE) is None
    two.insert(MODULE, result(0, 5))
    assert recalled(one, 0) == run(0, 5)[2]
    assert recalled(one, 2**16 - 1) is None


def test_a_compile_built_upon_a_tree_that_was_made_anew_smaller_is_dropped(tmp_path):
    one, two = ReplayStore(tmp_path, KEY), ReplayStore(tmp_path, KEY)
    one.insert(MODULE, result(0, 5))
    loaded = one.load(MODULE)
    assert loaded is not None
    num_known = len(loaded.whole.walk(decide_by(2**16 - 1)).nodes)
    assert num_known == 1  # the root is known, its other answer is not
    prune(tmp_path, 0)
    one.insert(MODULE, result(2**16 - 1, 5, num_known), known(num_known))
    assert one.load(MODULE) is None  # without its first observation it cannot start a tree
    two.insert(MODULE, result(0, 5))
    one.insert(MODULE, result(2**16 - 1, 5, num_known), known(num_known))  # the new tree knows as much
    assert recalled(two, 2**16 - 1) == run(2**16 - 1, 5)[2]
    one.insert(MODULE, result(2**15, 5, 9), known(9))  # more than it knows
    assert len(one.load(MODULE).whole.leaves) == 2


def test_pruning_takes_the_least_recently_used_first(tmp_path):
    store = ReplayStore(tmp_path, KEY)
    for age, digit in enumerate("012"):
        store.insert(digit * 64, result(3, 9))
        os.utime(next(tmp_path.rglob(f"{digit * 64}.tree")), (1000 + age, 1000 + age))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.tree"))
    assert [path.stem[0] for path in prune(tmp_path, size - 1)] == ["0"]
    assert store.modules() == ["1" * 64, "2" * 64]


def noise(seed: int, num_questions: int) -> CompileResult:
    """A compile whose observations cannot be compressed; all seeds begin with another question."""
    rng = np.random.default_rng(seed)
    leaf = ModuleLeaf(sizes(seed, seed), f"{seed:064x}", False)
    observations = rng.bytes(num_questions * WIDTH)
    answers = np.zeros(num_questions, np.int64).tobytes()
    return CompileResult(
        leaf.scores, leaf.object_sha256, 0.1, header=HEADER, answers=answers, observations=observations
    )


def test_a_full_disk_loses_no_earlier_compile(small_disk):
    store = ReplayStore(small_disk, KEY)
    kept, last = {}, 0
    with pytest.raises(ArtifactError, match="No space left") as caught:
        for last in range(100):
            store.insert(f"{last:064x}", noise(last, 4000))
            kept[f"{last:064x}"] = last
    assert "\n" not in str(caught.value)
    assert 5 < last < 100
    with pytest.raises(ArtifactError, match="No space left"):  # to a tree with something in it, too
        store.insert("0" * 64, _longer(noise(0, 4000), 60_000))
    for reader in (store, ReplayStore(small_disk, KEY)):
        assert {name for name in reader.modules() if reader.load(name) is not None} == kept.keys()
        for name, number in kept.items():
            trees = reader.load(name)
            assert [walk.leaf.scores["text_bytes"] for walk in trees.whole.compiles()] == [number]
    assert not list(small_disk.rglob(".*"))  # temporary files
    next(small_disk.rglob(f"{1:064x}.tree")).unlink()
    store.insert(f"{last:064x}", noise(last, 4000))  # there is room again
    trees = ReplayStore(small_disk, KEY).load(f"{last:064x}")
    assert trees.whole.walk(lambda rows: np.zeros(len(rows), np.int64)).leaf


def _longer(result: CompileResult, num_more: int) -> CompileResult:
    """Another compile of the same module: its last answer differs, and more questions follow."""
    more = noise(10**6, num_more)
    answers = np.concatenate([np.zeros(len(result.answers) // 8, np.int64), np.zeros(num_more, np.int64)])
    answers[len(result.answers) // 8 - 1] = 1
    return replace(more, answers=answers.tobytes(), observations=result.observations + more.observations)
