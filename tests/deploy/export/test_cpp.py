"""Policies as C++: compiled by the toolchain's own compiler, asked as LLVM's release mode asks."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.scratch import SHARED
from mlgo.deploy.export.cpp import Cpp, cpp_sources, selected_sources, selector, tree_function, write_sources
from mlgo.deploy.export.form import check_form, compare_decisions, recorded_questions
from mlgo.errors import CompilerExit, PolicyError
from mlgo.policy.features import Unscaled
from mlgo.policy.network import flatten
from mlgo.policy.policy import Overrides, Policy
from mlgo.policy.stored import load_policy, save_policy
from mlgo.policy.tree import Branching, Tree
from tests.deploy.export.cases import CASES


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Of zig."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SHARED, str(tmp_path_factory.mktemp("shared")))
        yield


@pytest.mark.parametrize("name", CASES)
def test_decisions_are_the_policys(name, tmp_path):
    policy, make_trace, *_ = CASES[name]
    trace, form = make_trace(), Cpp()
    form.write(policy, trace, tmp_path / "cpp")
    parity = check_form(form, tmp_path / "cpp", policy, trace)
    assert (parity.questions, parity.mismatches) == (trace.num_rows, 0)
    assert parity.ambiguous < 0.02 * trace.num_rows
    assert cpp_sources(policy, trace) == {path.name: path.read_text() for path in (tmp_path / "cpp").iterdir()}
    with form.harness(tmp_path / "cpp", policy) as harness:
        assert harness.ask(recorded_questions(trace, policy), repeats=2)[1] > 0.0  # nanoseconds


TREE = Tree(
    feature=np.array([1, 0, 0, 0, 0]),
    threshold=np.array([2**24 - 1, -1, 0, 0, 0], np.float32),
    left=np.array([1, 2, 2, 3, 4]),
    right=np.array([4, 3, 2, 3, 4]),
    value=np.array([0, 0, 1.5, -0.01, 7.65], np.float32),
)


def tree_policy(task, features):
    return Policy(task, Unscaled(features), Branching(2, 5), TREE.flat(), {"teacher": "marginal-s7"})


def test_a_tree_is_nested_conditions(tmp_path):
    policy, trace = tree_policy("inline-size", ("callsite_cost", "node_count")), CASES["inline-size"][1]()
    assert tree_function(policy, trace).splitlines()[1:] == [
        "float logit(int64_t callsite_cost, int64_t node_count) {",
        "  if (node_count > 16777215)",
        "    return 7.65f; // leaf 2",
        "  if (callsite_cost <= -1)",
        "    return 1.5f; // leaf 0",
        "  return -0.01f; // leaf 1",
        "}",
    ]
    Cpp().write(policy, trace, tmp_path / "cpp")
    assert tree_function(policy, trace) in (tmp_path / "cpp/InlinerSizeModel.cpp").read_text()
    asked = recorded_questions(trace, policy)
    with Cpp().opened(tmp_path / "cpp", policy) as ask:
        decisions = ask(asked)
    exactly = (asked["node_count"] >= 2**24) | (asked["callsite_cost"] < 0)
    assert decisions.tolist() == exactly.tolist()
    assert 0 < exactly.sum() < len(exactly)
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    assert compare_decisions(policy.actions, logits, decisions).ambiguous == 0


def test_a_tuned_policy_answers_its_questions_otherwise_and_all_others_as_its_base(tmp_path):
    base, make_trace, *_ = CASES["inline-size"]
    base, trace = base.base, make_trace()
    told_apart = ("callsite_cost", "threshold", "node_count")  # so a fourth feature does not count
    asked = recorded_questions(trace, base)
    own = np.unique(np.stack([asked[name][::3] for name in told_apart], axis=1), axis=0)
    answers = np.arange(len(own)) % 2
    tuned = replace(base, overrides=Overrides(told_apart, own, answers))
    save_policy(tuned, tmp_path / "tuned")
    again = load_policy(tmp_path / "tuned")
    assert again.features == base.features
    Cpp().write(again, trace, tmp_path / "cpp")
    with Cpp().opened(tmp_path / "cpp", again) as ask:
        decisions = ask(asked)
    expected = dict(zip(map(tuple, own.tolist()), answers.tolist(), strict=True))
    rows = zip(*(asked[name].tolist() for name in told_apart), strict=True)
    otherwise = base.logits(base.actions.pack(np, asked, base.normalisation.features)) > 0
    assert decisions.tolist() == [expected.get(row, no) for row, no in zip(rows, otherwise.tolist(), strict=True)]
    assert check_form(Cpp(), tmp_path / "cpp", again, trace).mismatches == 0


def test_a_tree_over_columns_is_refused():
    with pytest.raises(PolicyError, match="where answers are yes or no; regalloc-priority has others, take a network"):
        cpp_sources(tree_policy("regalloc-priority", ("li_size", "stage")), CASES["regalloc-priority"][1]())


def test_a_name_selects_the_policy(tmp_path):
    network, make_trace, *_ = CASES["inline-size"]
    trace, policies = make_trace(), {"size": network, "speed": tree_policy("inline-size", ("node_count", "threshold"))}
    write_sources(tmp_path, selected_sources(policies, trace))
    size, speed = (check_form(Cpp(), tmp_path, one, trace, selector=selector(name)) for name, one in policies.items())
    assert (size.mismatches, speed.mismatches) == (0, 0)
    assert size.inlined != speed.inlined
    with pytest.raises(CompilerExit, match="InlinerSizeModel: the model selector names none of size, speed"):
        check_form(Cpp(), tmp_path, network, trace, selector=selector("other"))
    # From llvm/unittests/Support/MD5Test.cpp.
    assert selector("abcdefghijklmnopqrstuvwxyz") == (0x3BE167CA6C49FB7D, 0x00E49261D7D3FCC3)


@pytest.mark.parametrize(
    ("names", "tasks", "message"),
    [
        ([], [], "one task, not for none"),
        (["a b"], ["inline-size"], "'a b' cannot select a policy"),
        (["", "b"], ["inline-size", "inline-size"], "'' cannot select a policy"),
        (["a", "b"], ["regalloc-evict"] * 2, "among policies of the inliner alone"),
        (["a", "b"], ["inline-size", "regalloc-evict"], "one task, not for inline-size and regalloc-evict"),
    ],
)
def test_policies_that_are_no_choice(names, tasks, message):
    with pytest.raises(PolicyError, match=message):
        selected_sources({name: CASES[task][0] for name, task in zip(names, tasks, strict=True)}, pa.table({}))


def test_zeros_of_joined_networks_are_left_out():
    policy, make_trace, *_ = CASES["inline-size"]
    (first, bias), *rest = policy.layers
    sparse = first.copy()
    sparse[0, :3], sparse[1, 6:], sparse[2] = 0.0, 0.0, 0.0
    text = cpp_sources(policy.with_weights(flatten([(sparse, bias), *rest])), make_trace())["InlinerSizeModel.cpp"]
    (rows,) = re.findall(r"Rows0\[\] = \{(.*)\};", text)
    assert rows == "{0,3,5},{5,0,6},{11,0,0},{11,0,8}"
    (weights,) = re.findall(r"Weights0\[\] = \{(.*)\};", text)
    kept = [float.fromhex(word.removesuffix("f")) for word in weights.split(",")]
    assert kept == [*sparse[0, 3:].tolist(), *sparse[1, :6].tolist(), *sparse[3].tolist()]


def test_a_model_that_does_not_compile_or_decides_otherwise_is_one_message(tmp_path):
    policy, make_trace, *_ = CASES["inline-size"]
    Cpp().write(policy, make_trace(), tmp_path / "cpp")
    source = tmp_path / "cpp/InlinerSizeModel.cpp"
    text = source.read_text()
    source.write_text("nonsense")
    with pytest.raises(CompilerExit, match="does not compile or run"):
        check_form(Cpp(), tmp_path / "cpp", policy, make_trace())
    source.write_text(text.replace("logit(Input) > 0.0f", "logit(Input) > 1.0f"))
    with pytest.raises(PolicyError, match=r"cpp: the exported model differs from the policy in \d+ of 900 decisions"):
        check_form(Cpp(), tmp_path / "cpp", policy, make_trace())
