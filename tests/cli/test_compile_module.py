"""`mlgo compile`: sizes of one module, and one-line errors."""

import json
import struct
from functools import partial

import numpy as np
import pytest

from mlgo.evaluate.logged import read_episode
from mlgo.host.log import LogParser, Outcome
from mlgo.objects.elf import executable_size, read_sections, text_size
from mlgo.policy.stored import save_policy
from tests.fakes.policies import linear_policy

PARSER = "data/sample/json/parser.cpp"
FEATURES = ("callee_basic_block_count", "callsite_cost")


@pytest.fixture(scope="module")
def measure(prints):
    """What ``--json`` prints for a policy."""

    def go(*arguments, module=PARSER):
        return json.loads(prints("compile", module, "--json", *arguments))

    return go


@pytest.fixture(scope="module")
def default(measure):
    return measure()


def sizes(record):
    return (record["exec_bytes"], record["text_bytes"])


def timeless(record):
    return {key: value for key, value in record.items() if key not in ("seconds", "policy")}


def test_keys_and_their_values(default):
    assert set(default) == {
        *("module", "policy", "compiler", "exec_bytes", "text_bytes"),
        *("questions", "inlined", "truncated", "seconds"),
    }
    assert (default["module"], default["policy"]) == (PARSER, "default")
    assert 0 < default["exec_bytes"] < default["text_bytes"]
    assert 0 < default["inlined"] < default["questions"]
    assert default["truncated"] is False
    assert default["seconds"] > 0


def test_the_object_that_is_kept_has_these_sizes(measure, default, tmp_path):
    record = measure("--policy", "default", "-o", tmp_path / "parser.o")
    assert timeless(record) == timeless(default)
    sections = read_sections((tmp_path / "parser.o").read_bytes())
    assert (executable_size(sections), text_size(sections)) == sizes(record)


def test_never_differs_from_the_default(measure, default):
    never = measure("--policy", "never")
    assert never["inlined"] == 0
    assert sizes(never) != sizes(default)


def test_random_is_reproducible(measure):
    first, again, other = (measure("--policy", f"random:{seed}") for seed in (1, 1, 2))
    assert timeless(first) == timeless(again)
    assert sizes(first) != sizes(other)
    assert 0 < first["inlined"] < first["questions"]


def test_bitcode_is_compiled_as_it_is(measure, sample):
    record = measure("--policy", "never", module=sample("lz/match.c"))
    assert record["questions"] > 0
    assert record["text_bytes"] > 0


def test_as_text(prints):
    names = [line.split()[0] for line in prints("compile", PARSER, "--policy", "never").splitlines()]
    assert names[:5] == ["module", "policy", "compiler", "exec_bytes", "text_bytes"]


def test_a_policys_folder(task, measure, tmp_path):
    save_policy(linear_policy(task.name, FEATURES, [0, 0, 1]), tmp_path / "policy")
    assert timeless(measure("--policy", tmp_path / "policy")) == timeless(measure("--policy", "always"))


@pytest.fixture
def fails(refuses):
    return partial(refuses, "compile")


def test_a_policy_of_embeddings_brings_its_vocabulary(measure, tmp_path):
    weights = [-1.0, 1.5]  # inlines what loads three times at most: log(4) < 1.5 < log(5)
    save_policy(linear_policy("inline-size", ["callee_counts[Load]"], weights), tmp_path / "policy")
    record = measure("--policy", tmp_path / "policy", "--log", tmp_path / "log.parquet", "--log-observations")
    assert 0 < record["inlined"] < record["questions"]
    episode = read_episode(tmp_path / "log.parquet")
    assert episode.settings.ir2vec == "counts"
    header = episode.result.header
    loads = header.scalars(episode.result.observations)[:, header.index("callee_counts[Load]")]
    assert np.frombuffer(episode.result.answers, np.int64).tolist() == (loads <= 3).tolist()


def test_a_missing_module(fails):
    assert "no/such/module.c is neither a file nor PROJECT/PATH" in fails("no/such/module.c")


@pytest.mark.parametrize(
    "policy", ["sometimes", "random", "random:", "random:x", "random:²", "random:-1", "no/such/folder"]
)
def test_unknown_policies(policy, fails):
    assert "--policy" in fails(PARSER, "--policy", policy)


def test_a_compiler_that_is_not_executable(fails, tmp_path):
    (tmp_path / "clang").write_text("")
    assert f"{tmp_path / 'clang'} is not an executable" in fails(PARSER, "--toolchain", tmp_path / "clang")


def test_a_policy_of_another_task(fails, tmp_path):
    save_policy(linear_policy("regalloc-evict", FEATURES, [0] * 6), tmp_path / "policy")
    assert "was trained for task regalloc-evict, not inline-size" in fails(PARSER, "--policy", tmp_path / "policy")


def test_a_folder_without_a_policy(fails, tmp_path):
    assert "policy.json is missing" in fails(PARSER, "--policy", tmp_path)


def test_a_source_with_a_mistake(fails, tmp_path):
    (tmp_path / "bad.c").write_text("int f(void) { return }\n")
    assert "error: expected expression" in fails(tmp_path / "bad.c")


def test_what_is_neither_source_nor_bitcode(fails, tmp_path):
    (tmp_path / "text").write_text("hello\n")
    assert "the compiler ended with status 1" in fails(tmp_path / "text")


def test_a_full_disk_is_one_line(fails, tmp_path, small_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk))
    source = tmp_path / "large.c"
    source.write_text("const char large[3000000] = {1};\n")
    assert fails(source) == "no space left on the device (temporary folder)"
    assert [path.name for path in small_disk.rglob("*") if path.is_file()] == ["owner.lock"]


def test_a_training_log(fails, measure, tmp_path):
    record = measure("--log", tmp_path / "parser.log", "--log-format", "llvm")
    events = LogParser().feed((tmp_path / "parser.log").read_bytes())
    rewards = [struct.unpack("<f", event.payload)[0] for event in events if isinstance(event, Outcome)]
    assert len(rewards) == record["questions"]
    assert set(rewards[:-1]) == {0.0}
    assert rewards[-1] == record["text_bytes"]
    assert fails(PARSER, "--log-format", "llvm") == "--log-format says what --log FILE holds; give that option, too"


@pytest.mark.parametrize("kind", ["episode", "llvm"])
def test_a_module_that_is_asked_nothing_has_no_log(fails, tmp_path, kind):
    (tmp_path / "empty.c").write_text("int nothing;\n")
    log = ("--log", tmp_path / "log", "--log-format", kind)
    error = fails(tmp_path / "empty.c", "--task", "regalloc-evict", "--policy", "first", *log)
    assert "the compiler asked nothing, so there is nothing to log" in error
    assert not (tmp_path / "log").exists()
