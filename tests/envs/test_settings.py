"""How environments compile: by default, as a baseline was measured, or as the user says."""

import gymnasium
import pytest

from mlgo.base.artifacts import MODULES, PROJECT, SCORES, provenance, write_rows
from mlgo.base.config import default_compile
from mlgo.base.files import file_sha256
from mlgo.envs.episode import choose_settings
from mlgo.errors import ConfigError, ToolchainError
from mlgo.host.session import compile_plain
from mlgo.host.tasks.task import get_task
from tests.envs.conftest import SMALL, finish
from tests.pipeline.test_merge_baseline import blank

INLINING, EVICTION = get_task("inline-size"), get_task("regalloc-evict")
CHANGED = {"objective": "exec_bytes", "optimization": "-Os"}


def chosen_for(task, baseline=None, settings=None, objective=None, optimization=None):
    return choose_settings(task, baseline, settings, objective, optimization)


@pytest.fixture
def baseline(tmp_path):
    """Provenance of a baseline at -O3, measured before there was a bound on questions."""
    settings = default_compile().model_dump(exclude={"max_questions"})
    settings |= {"objective": "spill_cost", "optimization": "-O3", "answer_timeout_s": 7.0}
    write_rows(tmp_path / "scores.parquet", [], SCORES, provenance(task="regalloc-evict", compile=settings))
    return tmp_path


@pytest.mark.parametrize(
    ("task", "arguments", "changed"),
    [
        (INLINING, {}, {}),
        (EVICTION, {}, {"objective": "spill_cost", "optimization": "-O2"}),
        (INLINING, CHANGED, CHANGED),
    ],
    ids=["inlining", "eviction", "single settings"],
)
def test_by_default_and_single_settings(task, arguments, changed):
    assert chosen_for(task, **arguments) == default_compile().model_copy(update=changed)
    with pytest.raises(ConfigError, match=r"objective: .* got 'bytes'"):
        chosen_for(task, objective="bytes")


def test_as_the_baseline_was_measured(baseline):
    chosen = chosen_for(EVICTION, baseline)
    assert (chosen.optimization, chosen.answer_timeout_s) == ("-O3", 7.0)
    assert chosen.max_questions == default_compile().max_questions
    assert chosen_for(EVICTION, baseline, objective="text_bytes").objective == "text_bytes"
    longer = chosen.model_copy(update={"answer_timeout_s": 99.0})
    assert chosen_for(EVICTION, baseline, settings=longer) == longer


def test_other_settings_than_those_of_the_baseline(baseline):
    with pytest.raises(ConfigError, match=r"optimization: -O2, but .* was measured with -O3"):
        chosen_for(EVICTION, baseline, optimization="-O2")
    chosen = chosen_for(EVICTION, baseline)
    with pytest.raises(ConfigError, match=r"size_stop_factor: 2\.0, but .* was measured with 4\.0"):
        chosen_for(EVICTION, baseline, settings=chosen.model_copy(update={"size_stop_factor": 2.0}))
    with pytest.raises(ConfigError, match="was measured for task regalloc-evict, this environment is of task inline"):
        chosen_for(INLINING, baseline)


def test_settings_are_compiled_with(make, toolchain):
    settings = default_compile().model_copy(update={"optimization": "-O3", "size_stop_factor": 1.01})
    env = make("mlgo/InlineSize-v0", [SMALL], settings=settings)
    assert env.problem.baseline == compile_plain(toolchain, env.problem.bitcode, settings).scores["text_bytes"]
    assert env.problem.baseline > make("mlgo/InlineSize-v0", [SMALL]).problem.baseline
    rewards, _, info = finish(env, lambda *_: 1)
    assert len(rewards) == info["questions"] < 10  # the size stop
    with pytest.raises(ConfigError, match="do not give them a second time"):
        make("mlgo/InlineSize-v0", [SMALL], settings=settings, optimization="-O2")


def test_a_corpus_is_compiled_as_its_baseline_was(sample, toolchain, tmp_path):
    """Of two modules the one that is asked about; its score is the baseline's, whatever a compile would say."""
    bitcode = sample("lz/match.c")
    source = {"project": "lz", "language": "c", "licence": "MIT", "skip_reason": ""}
    rows = [
        blank(MODULES) | source | {"module": name, "split": "train", "bitcode_sha256": file_sha256(bitcode)}
        for name in ("match.c", "silent.c")
    ]
    shard = source | {"module": "match.c", "ir_sha256": "", "bitcode": bitcode.read_bytes()}
    shard |= {"function_hashes": [], "function_sizes": []}
    write_rows(tmp_path / "modules.parquet", rows, MODULES, {})
    write_rows(tmp_path / "projects" / "lz.parquet", [shard], PROJECT, {})
    scores = [
        blank(SCORES)
        | {"project": "lz", "module": name, "advisor": advisor, "text_bytes": 1234, "num_questions": count}
        for name, count in (("match.c", 9), ("silent.c", 0))
        for advisor in ("heuristic", "echo")
    ]
    settings = default_compile().model_copy(update={"optimization": "-O3"})
    origin = provenance(task="inline-size", compile=settings.model_dump(), compiler=toolchain.name)
    write_rows(tmp_path / "scores.parquet", scores, SCORES, origin)
    folders = {"corpus": str(tmp_path), "baseline": str(tmp_path)}
    env = gymnasium.make("mlgo/InlineSize-v0", **folders)
    rewards, _, info = finish(env, lambda _, info: info["heuristic"])
    env.close()
    assert (info["module"], info["baseline"]) == ("lz/match.c", 1234.0)
    assert info["score"] == compile_plain(toolchain, bitcode, settings).scores["text_bytes"]
    assert rewards[-1] == 1 - info["score"] / 1234
    write_rows(tmp_path / "scores.parquet", scores, SCORES, origin | {"compiler": "clang 17.0.6"})
    with pytest.raises(ToolchainError, match=r"was measured with clang 17\.0\.6, this is ziglang clang"):
        gymnasium.make("mlgo/InlineSize-v0", **folders)
