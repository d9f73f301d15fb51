"""Policies as advisors and on disk."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.files import read_record, write_json
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, ConfigError, PolicyError
from mlgo.host.actions import Binary
from mlgo.host.log import Header
from mlgo.host.session import compile_under_advice
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import check_binary, load_policy, save_policy
from tests.host.actions.cases import CASES
from tests.policy.conftest import edited, saved_twice


def int64(name, shape=(1,)):
    return TensorSpec(name, np.dtype(np.int64), shape)


HEADER = Header((int64("other"), int64("b"), int64("a")), int64("inlining_decision"))


@pytest.fixture
def policy():
    """Inlines when slog(a) - slog(b) is above 0: weights 1 and -1, no hidden layer."""
    return Policy(
        "inline-size",
        Normalisation(("a", "b"), np.zeros(2, np.float32), np.ones(2, np.float32)),
        Architecture((2, 1)),
        np.array([1, -1, 0], np.float32),
        {"seed": 3},
    )


def payload(*values):
    return np.array(values, np.int64).tobytes()


YES, NO = payload(1), payload(0)


def test_features_are_found_by_name_and_answers_have_the_headers_type(policy):
    respond = policy.respond_to(HEADER)  # other, b, a
    assert respond(payload(100, 1, 2)) == YES
    assert respond(payload(-100, 2, 1)) == NO
    assert respond(payload(0, 3, 3)) == NO  # exactly 0 does not inline
    floats = Header(HEADER.features, TensorSpec("d", np.dtype(np.float32), (1,)))
    assert policy.respond_to(floats)(payload(0, 1, 2)) == np.float32(1).tobytes()


def test_other_weights(policy):
    turned = policy.with_weights(-policy.weights.astype(np.float64))
    assert turned.weights.dtype == np.float32
    assert turned.respond_to(HEADER)(payload(0, 1, 2)) == NO
    assert policy.respond_to(HEADER)(payload(0, 1, 2)) == YES


def test_headers_of_another_kind(policy):
    with pytest.raises(PolicyError, match=r"the compiler lacks 1 of the policy's features \(b\)"):
        policy.respond_to(Header((int64("a"),), int64("inlining_decision")))
    for advice in (None, int64("d", (2,))):
        with pytest.raises(PolicyError, match="single number"):
            policy.respond_to(Header(HEADER.features, advice))


def test_saved_policies_come_back_and_save_to_the_same_bytes(policy, tmp_path):
    odd = np.array([1 / 3, 1e-30], np.float32)
    policy = replace(policy, normalisation=Normalisation(("a", "b"), odd, odd))
    again = saved_twice(policy, tmp_path)
    assert again.normalisation.features == ("a", "b")
    for found in (again.normalisation.centre, again.normalisation.scale):
        assert np.array_equal(found, odd)
    assert np.array_equal(again.weights, policy.weights)


@pytest.mark.parametrize(("groups", "form"), [(1, 2), (2, 5)])
@pytest.mark.parametrize("name", CASES)
def test_policies_of_every_action_space_come_back(name, groups, form, tmp_path):
    saved = replace(CASES[name].policy(3, (4, 2), groups), origin={"seed": 1})
    save_policy(saved, tmp_path)
    assert json.loads((tmp_path / "policy.json").read_text())["format"] == form
    found = load_policy(tmp_path)
    assert found.architecture == saved.architecture
    assert found.actions == saved.actions
    assert found.weights.tolist() == saved.weights.tolist()
    assert (found.normalisation.features, found.origin) == (CASES[name].features, {"seed": 1})
    assert load_policy(tmp_path, type(saved.actions)).task == saved.task
    if name != "binary":
        with pytest.raises(PolicyError, match=f"not a policy of {saved.task}"):
            load_policy(tmp_path, Binary)
        with pytest.raises(ConfigError, match=f"task {saved.task} has others"):
            check_binary(saved.task, "marginal")


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        (3, PolicyError, r"hidden layers of \(2, 4, 2, 1\) do not divide into 3 groups"),
        (0, PolicyError, "do not divide into 0 groups"),
        (1, PolicyError, "21 weights where layers"),
        (True, ArtifactError, "unusable number of groups True"),
        ("2", ArtifactError, "unusable number of groups 2"),
    ],
)
def test_groups_that_do_not_fit_the_weights(groups, error, message, tmp_path):
    edited(CASES["binary"].policy(3, (4, 2), 2), tmp_path, groups=groups)
    with pytest.raises(error, match=message):
        load_policy(tmp_path)


def test_another_task_in_the_file(tmp_path):
    for task, message in (
        ("inline-size", "7 inputs where what it sees makes 3"),
        ("unrolling", "task 'unrolling', which this version does not know"),
    ):
        edited(CASES["categorical"].policy(0), tmp_path, task=task)
        with pytest.raises(PolicyError, match=message):
            load_policy(tmp_path)


def test_files_of_the_format_before_are_read(policy, tmp_path):
    save_policy(policy, tmp_path)
    record = read_record(tmp_path / "policy.json")
    del record["unit"], record["weights_sha256"]
    write_json(tmp_path / "policy.json", record | {"format": 1})
    assert load_policy(tmp_path).normalisation.unit is None


def archive(path, data):
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(3, np.float32))


DAMAGE = {
    "no folder": ("policy.json", lambda path, data: shutil.rmtree(path.parent)),
    **{text: ("policy.json", text.encode()) for text in ("", "{", "[]", "3", "{}", '{"format": 2}', "null")},
    **{f"{end} bytes": ("weights.npy", slice(end)) for end in (0, 1, 20, 100, -1)},
    "missing": ("weights.npy", lambda path, data: path.unlink()),
    "archive": ("weights.npy", archive),
    "pickle": ("weights.npy", lambda path, data: np.save(path, np.array([print], object), allow_pickle=True)),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files(case, policy, tmp_path):
    save_policy(policy, tmp_path)
    name, damage = DAMAGE[case]
    path, data = tmp_path / name, (tmp_path / name).read_bytes()
    if callable(damage):
        damage(path, data)
    else:
        path.write_bytes(data[damage] if isinstance(damage, slice) else damage)
    with pytest.raises(ArtifactError, match="is missing" if case == "no folder" else None):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("format", 7, PolicyError, "has policy format 7, this version reads 1 to 6; train it again"),
        ("widths", [2, 4, 1], PolicyError, "3 weights where layers"),
        ("widths", [1, 1], PolicyError, "weights where layers"),
        ("features", ["a"], PolicyError, "2 inputs where what it sees makes 1"),
        ("features", ["a", "b", "c"], PolicyError, "2 inputs where what it sees makes 3"),
        *(
            (key, one, (PolicyError, ArtifactError), "")
            for key in ("centre", "scale", "unit")
            for one in ([1.0], [1.0] * 3, [1.0, np.nan])
        ),
        *(
            (key, one, (PolicyError, ArtifactError), "")
            for key in ("scale", "unit")
            for one in ([0.0, 1.0], [1.0, np.inf])
        ),
        ("unit", "small", ArtifactError, ""),
        ("widths", [], (PolicyError, ArtifactError), ""),
        ("widths", [2, 2], PolicyError, "do not end in one output"),
        ("widths", ["2", "1"], ArtifactError, ""),
        ("widths", [2.0, 1.0], ArtifactError, ""),
        ("features", "ab", ArtifactError, ""),
    ],
)
def test_contradictions_in_the_description(key, value, error, message, policy, tmp_path):
    edited(policy, tmp_path, **{key: value})
    if value == [2, 2]:
        np.save(tmp_path / "weights.npy", np.zeros(6, np.float32))
    with pytest.raises(error, match=message or None):
        load_policy(tmp_path)


def test_weights_that_are_not_numbers(policy, tmp_path):
    save_policy(policy.with_weights(np.array([np.nan, np.inf, -np.inf])), tmp_path)
    with pytest.raises(PolicyError, match="3 weights are not finite; train it again"):
        load_policy(tmp_path)


def test_a_policy_drives_the_real_compiler(sample, toolchain, task, settings):
    names = ("callee_basic_block_count", "callsite_cost", "nr_ctant_params")
    scaling = Normalisation(names, np.zeros(3, np.float32), np.ones(3, np.float32))
    always = Policy(task.name, scaling, Architecture((3, 1)), np.array([0, 0, 0, 1], np.float32))
    single_block = always.with_weights(np.array([-1, 0, 0, 0.8]))  # log(1 + blocks) < 0.8: one block
    module = sample("lz/match.c")
    everything = compile_under_advice(toolchain, task, module, always, settings)
    assert np.all(np.frombuffer(everything.answers, np.int64) == 1)
    result = compile_under_advice(toolchain, task, module, single_block, settings, record=True)
    blocks = result.header.scalars(result.observations)[:, result.header.index("callee_basic_block_count")]
    answers = np.frombuffer(result.answers, np.int64)
    assert answers.tolist() == (blocks == 1).astype(int).tolist()
    assert 0 < answers.sum() < len(answers)
    unknown = Normalisation(("no_such",), np.zeros(1), np.ones(1))
    with pytest.raises(PolicyError, match="no_such"):
        compile_under_advice(
            toolchain, task, module, Policy(task.name, unknown, Architecture((1, 1)), np.zeros(2, np.float32)), settings
        )
