"""Tests of the channel, run on the real clang."""

import shutil

import pytest

from mlgo.research.commands.lit import LitError, run_tests
from mlgo.research.commands.lit import script as commands_of
from tests.research.lit_cases import ANSWERS, EVICT, INLINE, INLINE_CHECKS, MUTUAL, PRIORITY, write_tests


@pytest.fixture
def folder(tmp_path):
    return write_tests(tmp_path / "tests")


def outcomes(folder, tools=None):
    return {one.name: (one.outcome, one.reason) for one in run_tests(folder, "auto", tools)}


@pytest.mark.slow
def test_what_the_inliner_asks_about_the_file_as_it_stands(folder):
    wrong = INLINE_CHECKS.replace("block_count: 5", "block_count: 3")
    (folder / "wrong.ll").write_text(INLINE + wrong + MUTUAL)
    found = outcomes(folder)
    assert found["inline.ll"][0] == "passed"
    assert found["wrong.ll"][0] == "failed"
    assert "callee_basic_block_count: 3: not found" in found["wrong.ll"][1]


@pytest.mark.parametrize("text", [EVICT, pytest.param(PRIORITY, marks=pytest.mark.slow)])
def test_register_allocation(folder, text):
    (folder / "inline.ll").write_text(text)
    assert outcomes(folder) == {"inline.ll": ("passed", "")}


@pytest.mark.slow
def test_what_is_not_applicable_says_why(folder):
    for name, old, new in (
        ("other", "-passes=scc-oz-module-inliner", "-passes=inline"),
        ("output", "-o /dev/null", "-o %t.out"),
        ("option", "-enable-ml-inliner=release", "-enable-ml-inliner=release -no-such-option=1"),
        ("feature", "x86_64-linux", "x86_64-linux, no-such-target"),
        ("checks", "CHECK: context", "CHECK-DAG: context"),
        ("plain", "-inliner-interactive-channel-base=%t.channel", ""),
    ):
        (folder / f"{name}.ll").write_text((INLINE + INLINE_CHECKS).replace(old, new) + MUTUAL)
    (folder / "inline.ll").unlink()
    found = outcomes(folder)
    reasons = {
        "checks.ll": "does not know CHECK-DAG",
        "feature.ll": "it requires no-such-target",
        "option.ll": "does not know -no-such-option",
        "other.ll": "passes=scc-oz-module-inliner is all",
        "output.ll": "what opt writes is wanted",
        "plain.ll": "it does not use the interactive channel",
    }
    assert [(name, outcome) for name, (outcome, _) in found.items()] == [(name, "not applicable") for name in reasons]
    assert all(reason in found[name][1] for name, reason in reasons.items()), found


@pytest.mark.slow
def test_a_host_or_compiler_that_fails(folder):
    (folder / "Inputs" / "answers.py").write_text(
        ANSWERS.replace("return int(", "raise ValueError('no answer') or int(")
    )
    outcome, reason = outcomes(folder)["inline.ll"]
    assert (outcome, "no answer" in reason) == ("failed", True)
    (folder / "Inputs" / "answers.py").write_text(ANSWERS)
    (folder / "inline.ll").write_text(INLINE + INLINE_CHECKS + "define this is no module")
    assert outcomes(folder)["inline.ll"][0] == "failed"


def test_tools_of_llvm_take_part_where_they_are_given(folder, tmp_path, script):
    tools = tmp_path / "bin"
    tools.mkdir()
    with pytest.raises(LitError, match="has no opt, llc, FileCheck"):
        run_tests(folder, "auto", tools)
    for name in ("opt", "llc", "FileCheck"):
        shutil.copy(script(f'[ "$1" ] && cat > /dev/null; echo "{name} was here" >&2; exit 3'), tools / name)
    outcome, reason = outcomes(folder, tools)["inline.ll"]
    assert outcome == "failed"
    assert "opt was here" in reason
    assert "FileCheck was here" in reason
    message = "opt: Unknown command line argument '-inliner-interactive-channel-base=x'."
    shutil.copy(script(f'echo "{message}" >&2; exit 1'), tools / "opt")
    assert outcomes(folder, tools)["inline.ll"] == (
        "not applicable",
        "this compiler does not know -inliner-interactive-channel-base",
    )


def test_lines_by_hand(tmp_path):
    text = (
        "; DEFINE: %{a} = opt \\\n; DEFINE:   -x %{b}\n; DEFINE: %{b} = %s\n"
        "; RUN: cp %S/../up/log_reader.py %t.d\n; RUN: %{a} | \\\n; RUN:   cat 5%%\n// RUN: %python\n"
    )
    commands = commands_of(tmp_path / "t.ll", text, tmp_path / "o", tmp_path / "host")
    assert commands[:2] == [f"cp {tmp_path}/host/log_reader.py {tmp_path}/o.d", f"opt -x {tmp_path}/t.ll | cat 5%"]


@pytest.mark.parametrize(("name", "message"), [("none", "is no folder"), ("Inputs", "interactive-channel-base=")])
def test_folders_without_tests(folder, name, message):
    with pytest.raises(LitError, match=message):
        run_tests(folder / name, "auto", None)
