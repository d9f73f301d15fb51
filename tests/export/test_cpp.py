"""Policies as C++: compiled by the toolchain's own compiler, asked as LLVM's release mode asks."""

import re

import numpy as np
import pytest

from mlgo.core.errors import CompilerExit
from mlgo.export.cpp import cpp_sources, export_cpp, run_cpp
from mlgo.export.parity import compare_decisions
from mlgo.export.saved_model import recorded_questions
from mlgo.policy.network import flatten
from mlgo.problems.llvm.task import get_task
from tests.export.test_saved_model import CASES


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("zig")


@pytest.mark.parametrize("name", CASES)
def test_decisions_are_the_policys(name, tmp_path, cache):
    policy, make_trace, *_ = CASES[name]
    trace, task = make_trace(), get_task(name)
    export_cpp(policy, trace, tmp_path)
    asked = recorded_questions(trace, policy)
    decisions, nanoseconds = run_cpp(tmp_path, task, asked, cache)
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    parity = compare_decisions(policy.actions, logits, decisions)
    assert (parity.questions, parity.mismatches) == (trace.num_rows, 0)
    assert parity.ambiguous < 0.02 * trace.num_rows
    assert nanoseconds > 0.0
    assert cpp_sources(policy, trace) == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_what_is_no_number_is_taken_as_the_guard_does(tmp_path, cache):
    policy, make_trace, *_ = CASES["regalloc-priority"]
    trace, task = make_trace(), get_task(policy.task)
    export_cpp(policy, trace, tmp_path)
    asked = {name: values[:3].copy() for name, values in recorded_questions(trace, policy).items()}
    for values in asked.values():
        values[:] = values[0]
    ((feature, value),) = task.not_finite.items()
    asked[feature][:] = [value, np.inf, np.nan]
    decisions, _ = run_cpp(tmp_path, task, asked, cache)
    assert decisions[0] == decisions[1] == decisions[2]


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


def test_a_model_that_does_not_compile_is_one_message(tmp_path, cache):
    policy, make_trace, *_ = CASES["inline-size"]
    export_cpp(policy, make_trace(), tmp_path)
    (tmp_path / "InlinerSizeModel.cpp").write_text("nonsense")
    with pytest.raises(CompilerExit, match="does not compile or run"):
        run_cpp(tmp_path, get_task(policy.task), recorded_questions(make_trace(), policy), cache)
