"""Vocabularies of IR2Vec: what is counted, by hand and by the real compiler, and files that are none."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from mlgo.errors import ConfigError, PolicyError, ProtocolError, ToolchainError
from mlgo.evaluate import CompileHost
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.ir2vec import find_vocabulary, keep_vocabulary, vocabulary_of
from mlgo.host.tasks.task import EchoAdvisor, get_task, settings_for_policy
from tests.fakes.policies import linear_policy

ECHO = EchoAdvisor("inlining_default")
SECTIONS = ("Opcodes", "Types", "Arguments")
ROWS = {"Opcodes": {"Ret": [1, 0], "Call": [0, 1]}, "Types": {"VoidTy": [0, 0.5]}, "Arguments": {"Variable": [5, 0]}}

MODULE = """\
define internal i32 @callee(ptr %p, i32 %x) minsize optsize {
  %y = load i32, ptr %p
  %z = mul i32 %y, 3
  store i32 %x, ptr %p
  ret i32 %z
}
define i32 @caller(ptr %p, i32 %x) minsize optsize {
  %y = call i32 @callee(ptr %p, i32 %x)
  ret i32 %y
}
"""
# Types are those of results: store and ret have none, that is void. Operands: of load a pointer; of mul a variable and
# a constant; of store a variable and a pointer; of ret a variable; of the call a pointer, a variable and the function.
CALLEE = dict.fromkeys(["Load", "Mul", "Store", "Ret", "Constant"], 1)
CALLEE |= {"IntegerTy": 2, "VoidTy": 2, "Pointer": 2, "Variable": 3}
CALLER = {"Call": 1, "Ret": 1, "IntegerTy": 1, "VoidTy": 1, "Pointer": 1, "Variable": 2, "Function": 1}


@pytest.fixture(scope="module")
def compiled(toolchain, settings, task, tmp_path_factory, sample):
    """Compiles a module under the heuristic's own answers, with a vocabulary."""
    (path := tmp_path_factory.mktemp("ir2vec") / "module.ll").write_text(MODULE)

    def go(vocabulary, advisor=ECHO, module=path):
        chosen = settings.model_copy(update={"ir2vec": str(vocabulary)})
        return compile_under_advice(toolchain, task, module, advisor, chosen, with_heuristic_feature=True, record=True)

    return go


def table(result):
    """Features by name, [num_questions]."""
    names = [spec.name for spec in result.header.features]
    return dict(zip(names, result.header.scalars(result.observations).T, strict=True))


def of_first(result, start):
    """What is not 0 of the features that start so, at the first question."""
    return {
        name[len(start) : -1]: rows[0] for name, rows in table(result).items() if name.startswith(start) and rows[0]
    }


def vectors(result, start):
    return np.stack([rows for name, rows in table(result).items() if name.startswith(start)], axis=1)


def test_counts_by_hand(compiled):
    found = [of_first(compiled("counts"), f"{role}_counts[") for role in ("callee", "caller")]
    assert found == [CALLEE, CALLER]


def test_the_code_and_the_other_features_stay_the_same(compiled, sample):
    module = sample("graph/paths.cpp")
    plain, counted = compiled("", module=module), compiled("counts", module=module)
    assert counted.object_sha256 == plain.object_sha256
    assert counted.answers == plain.answers
    assert {spec.dtype for spec in plain.header.features} == {np.dtype(np.int64)}
    found = table(counted)
    for name, rows in table(plain).items():
        assert found[name].tolist() == rows.astype(np.float32).tolist()


def test_random_vectors_are_sums_of_counts(compiled, sample):
    module = sample("graph/paths.cpp")
    counted, random = compiled("counts", module=module), compiled("random-7", module=module)
    rows = json.loads(find_vocabulary("random-7").content)
    signs = np.concatenate([np.sign(list(rows[section].values())) for section in SECTIONS])
    assert set(np.unique(signs)) == {-1, 1}
    for role in ("callee", "caller"):
        sums = vectors(counted, f"{role}_counts") @ signs
        assert vectors(random, f"{role}_random-7") == pytest.approx(sums, abs=1e-4)  # 5 * 0.2 is not quite 1 in float32


def test_random_vectors_are_the_same_for_ever():
    assert sha256(find_vocabulary("random-8").content).hexdigest().startswith("8114ec8cf7df")
    assert find_vocabulary("random-8").content != find_vocabulary("random-9").content


def test_a_file(compiled, tmp_path):
    (path := tmp_path / "own.json").write_text(json.dumps(ROWS))
    name = sha256(path.read_bytes()).hexdigest()[:12]
    # 1 for ret, 0.2 * 5 for each of three variables; 0.5 * 0.5 for each of two results of type void.
    assert of_first(compiled(path), f"callee_{name}[") == pytest.approx({"0": 1 + 3, "1": 0.5})
    assert of_first(compiled(path), f"caller_{name}[") == pytest.approx({"0": 1 + 2, "1": 1 + 0.25})


def test_a_file_is_kept_under_the_name_of_its_content(tmp_path):
    (path := tmp_path / "own.json").write_text(json.dumps(ROWS))
    kept = keep_vocabulary(str(path), tmp_path / "kept")
    assert Path(kept).name == f"{sha256(path.read_bytes()).hexdigest()[:12]}.json"
    assert find_vocabulary(kept) == find_vocabulary(str(path))
    assert keep_vocabulary(kept, tmp_path / "kept") == kept
    path.write_text(json.dumps(ROWS, indent=1))
    assert keep_vocabulary(str(path), tmp_path / "kept") != kept
    assert [keep_vocabulary(setting, tmp_path / "none") for setting in ("", "counts")] == ["", "counts"]
    assert not (tmp_path / "none").exists()


def policy(*weights):
    """Inlines where a weighted sum of signed logarithms is above 0; the last weight is the constant one."""
    names = ("callee_counts[Load]", "caller_counts[Call]")[: len(weights) - 1]
    return linear_policy("inline-size", names, weights)


def test_a_policy_of_counts(compiled, sample):
    loads_little, module = policy(-1.0, 1.5), sample("graph/paths.cpp")  # log(1 + 3) < 1.5 < log(1 + 4)
    result = compiled("counts", loads_little, module)
    answers, loads = np.frombuffer(result.answers, np.int64), table(result)["callee_counts[Load]"]
    assert answers.tolist() == (loads <= 3).tolist()
    assert 0 < answers.sum() < len(answers)
    rows = np.frombuffer(result.observations, np.uint8).reshape(len(answers), -1)
    assert np.array_equal(loads_little.decide_for(result.header)(rows), answers)


@pytest.mark.parametrize("vocabulary", ["", "random-8"])
def test_a_policy_of_another_vocabulary(vocabulary, compiled, leaves_nothing):
    with leaves_nothing(), pytest.raises(PolicyError, match=r"callee_counts\[Load\].* compile.ir2vec"):
        compiled(vocabulary, policy(1.0, 0.0))


def test_settings_follow_the_policy(settings, task):
    assert vocabulary_of(policy(1.0, 0.0).features) == "counts"
    assert vocabulary_of(["callee_random-16[3]"]) == "random-16"
    assert vocabulary_of(["callee_0123456789ab[0]"]) == "0123456789ab"
    assert vocabulary_of(["callee_users", "is_multiple_blocks"]) == ""
    assert settings_for_policy(["callee_users", "callee_counts[Load]"], task, settings).ir2vec == "counts"
    for name in ("callee_0123456789ab[0]", "callee_users"):
        assert settings_for_policy([name], task, settings) == settings
    chosen = settings.model_copy(update={"ir2vec": "own.json"})
    assert settings_for_policy(["callee_counts[Load]"], task, chosen) == chosen


BAD_FILES = {
    "not JSON": ("{", "is not a vocabulary of IR2Vec"),
    "no object": ("[1]", "it is not a JSON object"),
    "no types": (json.dumps({"Opcodes": ROWS["Opcodes"]}), "it has no section Types"),
    "empty section": (json.dumps(ROWS | {"Types": {}}), "it has no section Types"),
    "a word": (json.dumps(ROWS | {"Types": {"VoidTy": ["a", 0]}}), "Types.VoidTy is not a list of numbers"),
    "no number": (json.dumps(ROWS | {"Types": {"VoidTy": [float("nan"), 0]}}), "NaN is no number of JSON"),
    "two lengths": (json.dumps(ROWS | {"Types": {"VoidTy": [1, 2, 3]}}), "its vectors have lengths 2, 3"),
    "no length": (json.dumps({name: {"a": []} for name in SECTIONS}), "its vectors have lengths 0"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_files_that_are_no_vocabulary(kind, tmp_path):
    text, reason = BAD_FILES[kind]
    (path := tmp_path / "own.json").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        find_vocabulary(str(path))


@pytest.mark.parametrize("setting", ["none.json", "count", "random-", "random-0", "random-1000", "."])
def test_what_names_no_vocabulary(setting):
    with pytest.raises(ConfigError, match=r"cannot be read .*; name counts, random-N or a vocabulary"):
        find_vocabulary(setting)


def test_a_compiler_that_sends_something_else(compiled):
    header = compiled("").header
    with pytest.raises(ProtocolError, match="does not send callee_embedding of 8 numbers"):
        find_vocabulary("random-8").split(header)


def test_an_old_compiler(toolchain, settings):
    chosen, old = settings.model_copy(update={"ir2vec": "counts"}), replace(toolchain, version=(21, 1, 0))
    with pytest.raises(ToolchainError, match=r"compile\.ir2vec needs LLVM 22 or newer, this is ziglang clang 21.1.0"):
        CompileHost(old, "inline-size", chosen, 1)


@pytest.mark.parametrize("name", ["regalloc-evict", "regalloc-priority"])
def test_tasks_without_embeddings(name):
    with pytest.raises(ConfigError, match=f"sends no embeddings for task {name}"):
        get_task(name).ir2vec("counts")
