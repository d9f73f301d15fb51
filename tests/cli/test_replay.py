"""`mlgo replay`: what compiles have shown, and a logged compile again."""

import json
import shutil
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from mlgo.base.config import load_config
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.logged import read_episode, write_episode
from mlgo.evaluate.worker import tree_key
from mlgo.host.tasks.regalloc import FIRST_LEGAL, LIGHTEST
from mlgo.host.tasks.task import ConstantAdvisor, get_task
from mlgo.jit.cache import CompileCache, caches
from mlgo.jit.compiler import SuperPmiSpec
from mlgo.jit.labels import find_label
from mlgo.jit.outcome import Failed
from mlgo.jit.pool import ChoicePool
from mlgo.policy.stored import save_policy
from mlgo.pool.records import frame, read_records
from mlgo.pool.tree_store import MAGIC, ReplayStore
from tests.cli.conftest import REPOSITORY
from tests.fakes.collection import make_collection
from tests.fakes.policies import linear_policy
from tests.host.conftest import optimized  # noqa: F401
from tests.host.test_regalloc_real import TASK, fast  # noqa: F401
from tests.pool.toy_trees import KEY, result

MODULE = "a" * 64
PRESET = REPOSITORY / "config/presets/regalloc.yaml"


def fill_trees(folder, toolchain, task, bitcode, advisors, *presets):
    """Trees of one module, by several ways of answering."""
    (folder / "bitcode").mkdir()
    module = folder / "bitcode" / f"{MODULE}.bc"
    shutil.copy(bitcode, module)
    settings = load_config(REPOSITORY / "config/config.yaml", *presets).compile
    store = ReplayStore(folder / "replay", tree_key(toolchain, task, settings))
    jobs = [CompileJob("m", module, one, sha256=MODULE) for one in advisors]
    with CompileHost(toolchain, task.name, settings, 1, store) as host:
        assert not any(outcome.reason for outcome in host.compile_all(jobs))
    return folder


@pytest.fixture(scope="module")
def inlined(toolchain, sample, tmp_path_factory):
    folder, advisors = tmp_path_factory.mktemp("inlined"), (ConstantAdvisor(0), ConstantAdvisor(1))
    return fill_trees(folder, toolchain, get_task("inline-size"), sample("matrix/lu.cpp"), advisors)


@pytest.fixture(scope="module")
def work(toolchain, optimized, tmp_path_factory):  # noqa: F811
    """Trees of register eviction."""
    folder, bitcode = tmp_path_factory.mktemp("work"), optimized(TASK, "matrix/lu.cpp")
    return fill_trees(folder, toolchain, TASK, bitcode, (LIGHTEST, FIRST_LEGAL), PRESET)


def test_stats_and_verify(prints, work):
    (row,) = json.loads(prints("replay", "stats", "--work", work, "--json"))
    assert (row["task"], row["modules"]) == ("regalloc-evict", 1)
    assert row["compiles"] > row["contexts"] > 1
    assert 0 < row["bytes_per_node"] < 3436
    text = prints("replay", "verify", "--work", work, "--preset", PRESET, "--count", "5")
    assert text == "2 of 2 results are as the trees say\n"


def test_verify_finds_a_tree_of_another_module(mlgo, work, optimized, tmp_path):  # noqa: F811
    other = tmp_path / "work"
    shutil.copytree(work, other)
    shutil.copy(optimized(TASK, "lz/match.c"), other / "bitcode" / f"{MODULE}.bc")
    run = mlgo("replay", "verify", "--work", other, "--preset", PRESET)
    assert run.returncode == 1
    assert "context 0 is" in run.stdout


def test_export(prints, work, tmp_path):
    prints("replay", "export", tmp_path / "trees.parquet", "--work", work)
    table = pq.read_table(tmp_path / "trees.parquet")
    assert {"context", "step", "answer", "spill_cost", "mask"} <= set(table.column_names)
    masks, answers = table["mask"].to_pylist(), table["answer"].to_pylist()
    assert all(mask[answer] == 1 for mask, answer in zip(masks, answers, strict=True))


def test_trees_of_whole_modules(prints, inlined, tmp_path):
    (row,) = json.loads(prints("replay", "stats", "--work", inlined, "--json"))
    assert (row["task"], row["modules"], row["contexts"], row["compiles"]) == ("inline-size", 1, 1, 2)
    assert prints("replay", "verify", "--work", inlined) == "2 of 2 results are as the trees say\n"
    prints("replay", "export", tmp_path / "trees.parquet", "--work", inlined)
    table = pq.read_table(tmp_path / "trees.parquet")
    assert table.column_names[:7] == [
        *("module_sha256", "compile", "step", "answer"),
        *("exec_bytes", "text_bytes", "truncated"),
    ]
    assert len(set(table["compile"].to_pylist())) == 2
    assert set(table["answer"].to_pylist()) == {0, 1}


def test_merge(prints, inlined, tmp_path):
    there = tmp_path / "there"
    shutil.copytree(inlined / "replay", there)
    (key,) = [path.parent.name for path in there.glob("*/key.json")]
    (tmp_path / "bitcode").symlink_to(inlined / "bitcode")
    for new in (2, 0):
        text = prints("replay", "merge", there, "--work", tmp_path)
        assert text == f"{key}: {new} of 2 results of 1 modules were new\n"
    assert prints("replay", "verify", "--work", tmp_path) == "2 of 2 results are as the trees say\n"


def test_merge_of_what_is_no_store(refuses, inlined, tmp_path):
    for folder in (tmp_path / "missing", inlined):
        error = refuses("replay", "merge", folder, "--work", tmp_path)
        assert error == f"{folder} holds no response trees of this version; name another data/work/replay"
    there = tmp_path / "there"
    shutil.copytree(inlined / "replay", there)
    (tree,) = there.glob("*/*.tree")
    data = bytearray(tree.read_bytes())
    data[len(data) // 2] ^= 1
    tree.write_bytes(data)
    assert f"{tree} is damaged at byte " in refuses("replay", "merge", there, "--work", tmp_path)
    assert not list((tmp_path / "replay").glob("*/*"))


def test_merge_of_contradicting_trees(refuses, tmp_path):
    for place, seed in (("here", 1), ("there", 2)):
        ReplayStore(tmp_path / place / "replay", KEY).insert(MODULE, result(1, seed))
    there = tmp_path / "there/replay"
    error = refuses("replay", "merge", there, "--work", tmp_path / "here")
    assert error.startswith(f"{there} contradicts {tmp_path / 'here/replay'}: module {MODULE[:16]}: ")
    assert error.endswith("; try mlgo replay verify")


def test_merging_a_malformed_file_is_one_line_and_changes_nothing(refuses, tmp_path):
    here, there = ReplayStore(tmp_path / "work/replay", KEY), ReplayStore(tmp_path / "there", KEY)
    here.insert(MODULE, result(1, 5))
    there.insert(MODULE, result(2, 5))
    before, path = here.path(MODULE).read_bytes(), there.path(MODULE)
    (beginning, growth) = [payload for payload, _ in read_records(MAGIC, path.read_bytes())]
    path.write_bytes(b"".join(frame(MAGIC, one) for one in [beginning, growth, growth]))
    error = refuses("replay", "merge", tmp_path / "there", "--work", tmp_path / "work")
    assert error.startswith(f"{path} is damaged at byte ")
    assert here.path(MODULE).read_bytes() == before


def test_outcomes_under_choices_are_counted_merged_and_pruned(prints, tmp_path):
    outcomes = {(): Failed("object", "none"), (0,): Failed("a", "b")}
    CompileCache(tmp_path / "there/replay", {"name": "superpmi"}).add("7", outcomes)
    for new in (2, 0):
        text = prints("replay", "merge", "--work", tmp_path / "here", tmp_path / "there/replay")
        assert text == f"superpmi under choices: {new} of 2 outcomes of 1 units were new\n"
    (row,) = json.loads(prints("replay", "stats", "--work", tmp_path / "here", "--json"))
    assert (row["compiler"], row["units"], row["compiles"]) == ("superpmi under choices", 1, 2)
    assert prints("replay", "prune", "--work", tmp_path / "here", "--max-gb", "0") == "1 files deleted\n"
    assert caches(tmp_path / "here/replay")[0].units() == []


@pytest.fixture
def chosen(tmp_path):
    """Preset and folders of a run on the JIT's double, of which two methods are known."""
    collection = tmp_path / "methods.mch"
    collection.write_text(json.dumps(make_collection(60, 0)))
    (tmp_path / "libclrjit.so").touch()
    command = [sys.executable, str(REPOSITORY / "tests/fakes/superpmi.py")]
    names = {"command": command, "jit": str(tmp_path / "libclrjit.so"), "collection": str(collection)}
    preset = tmp_path / "small.yaml"
    preset.write_text(yaml.safe_dump({"task": "jit-cse", "cse": {"superpmi": names}}))
    config = load_config(REPOSITORY / "config/config.yaml", preset)
    spec = SuperPmiSpec.of(config.cse.superpmi)
    with ChoicePool(spec, 1, cache=tmp_path / "replay") as pool:
        pool.map(partial(find_label, max_exhaustive=3, max_trials=8, seed=0), ["1", "2"])
        num_compiled = pool.num_compiled
    return ["--work", tmp_path, "--data", tmp_path / "data"], preset, num_compiled


def test_outcomes_under_choices_are_verified_and_exported(prints, chosen, tmp_path):
    folders, preset, num_compiled = chosen
    text = prints("replay", "verify", *folders, "--preset", preset, "--count", "5")
    assert text == "5 of 5 outcomes under choices are as the cache says\n"
    text = prints("replay", "export", *folders, tmp_path / "known.parquet")
    assert text == f"{tmp_path}/known.parquet: {num_compiled} outcomes of 2 units\n"
    rows = pq.read_table(tmp_path / "known.parquet").to_pylist()
    by_heuristic = [row for row in rows if row["decisions"] is None]
    assert [row["content"] for row in by_heuristic] == ["method-1", "method-2"]
    for row in rows:
        assert (row["failure"], row["requested"]) == ("", row["decisions"] or row["requested"])
        assert row["decisions"] is None or row["f_viable"] == [int(one) for one in row["viable"]]


def test_an_outcome_that_comes_out_otherwise_is_found(mlgo, chosen, tmp_path):
    folders, preset, _ = chosen
    (cache,) = caches(tmp_path / "replay")
    one = cache.outcomes("1")[()]
    path = cache.folder / "method-1.choices"
    path.unlink()
    CompileCache(tmp_path / "replay", cache.key).add("1", {(): replace(one, score=one.score + 1.0)})
    done = mlgo("replay", "verify", *folders, "--preset", preset, "--count", "1000")
    assert done.returncode == 1
    assert f"1 under (): the compiler gives ({one.score}," in done.stdout


def test_choices_of_another_task_are_left_out_of_a_verification(prints, chosen):
    folders, _, _ = chosen
    text = prints("replay", "verify", *folders)
    assert text == "outcomes under choices: not of task inline-size, left out; name the preset of theirs\n"


PARSER = "data/sample/json/parser.cpp"


@pytest.fixture(scope="module")
def episode(prints, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "parser.episode"
    prints("compile", PARSER, "--log", path, "--log-observations")
    return path


def test_the_same_again(prints, episode, tmp_path):
    record = json.loads(prints("replay", "episode", episode, "--json", "-o", tmp_path / "parser.o"))
    assert (record["verdict"], record["difference"]) == ("equal", "")
    assert record["object_sha256"] == record["logged_object_sha256"]
    assert (record["policy"], record["compared"]) == ("default", "observations and answers")
    assert (tmp_path / "parser.o").exists()
    prints("replay", "episode", episode, "--policy", "default")


def test_a_tampered_answer(mlgo, episode, tmp_path):
    logged = read_episode(episode)
    answers = np.frombuffer(logged.result.answers, np.int64).copy()
    answers[0] ^= 1
    write_episode(tmp_path / "bad", replace(logged, result=replace(logged.result, answers=answers.tobytes())))
    run = mlgo("replay", "episode", tmp_path / "bad")
    assert (run.returncode, run.stderr) == (1, "")
    lines = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
    assert lines["verdict"] == "different"
    assert lines["difference"].startswith("question ")


def test_a_policy_with_other_weights_or_another_task(prints, refuses, tmp_path):
    folder, log = tmp_path / "policy", tmp_path / "log"
    save_policy(linear_policy("inline-size", ["callsite_cost"], [0, 1]), folder)
    prints("compile", "data/sample/lz/match.c", "--policy", folder, "--log", log)
    prints("replay", "episode", log, "--policy", folder)
    save_policy(linear_policy("inline-size", ["callsite_cost"], [0, -1]), folder)
    error = refuses("replay", "episode", log, "--policy", folder)
    assert error == f"the episode was logged under policy policy with other weights, not {folder}"
    save_policy(linear_policy("regalloc-evict", ["callsite_cost"], [0] * 4), folder)
    assert "was trained for task regalloc-evict" in refuses("replay", "episode", log, "--policy", folder)
    assert "logged under policy policy, not never" in refuses("replay", "episode", log, "--policy", "never")


def test_errors_are_one_line(refuses, episode, tmp_path):
    write_episode(tmp_path / "task", replace(read_episode(episode), task="regalloc"))
    write_episode(tmp_path / "corpus", replace(read_episode(episode), bitcode=None))
    write_episode(tmp_path / "clang", replace(read_episode(episode), compiler="clang 17.0.6"))
    (tmp_path / "text").write_text("hello\n")
    for name, message in [
        ("none", "is missing; log a compile"),
        ("task", "unknown task 'regalloc'"),
        ("corpus", "name the right folder with --corpus"),
        ("clang", "was logged with clang 17.0.6"),
        ("text", "is not a readable Parquet file"),
    ]:
        assert message in refuses("replay", "episode", tmp_path / name, "--corpus", tmp_path)


def test_observations_go_into_a_log(refuses):
    error = refuses("compile", PARSER, "--log-observations")
    assert error == "--log-observations says what --log FILE holds; give that option, too"
