"""Guides whose steps a program follows: what they name is there, and their steps apply."""

import re
import shutil

import pytest

from tests.pipeline.conftest import ROOT
from tests.pipeline.guide import Step, read_steps

GUIDES = {ROOT / f"docs/adding-a-{kind}.md": few for kind, few in (("learner", 6), ("measure", 5), ("task", 20))}
"""Guides; each names more paths than this."""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_file_that_a_guide_names_is_there(guide):
    text = guide.read_text()
    made = {step.path for step in read_steps(text) if step.verb == "Create"} | {"data/report/report.html"}
    named = set(re.findall(r"(?<![\w./-])(?!llvm/)(?:[\w-]+/)+(?:[\w-]+\.[a-z]+)?(?![\w/-])", text))
    linked = set(re.findall(r"\]\(([^)#]+)", text))
    assert len(named) > GUIDES[guide]
    assert guide.stem != "adding-a-task" or len(linked) > 3
    assert sorted(path for path in named - made - linked if not (ROOT / path).exists()) == []
    assert sorted(path for path in linked if not (guide.parent / path).exists()) == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_steps_of_a_guide_apply(guide, tmp_path):
    for step in read_steps(guide.read_text()):
        if step.verb == "Run":
            continue
        here, there = ROOT / step.path, tmp_path / step.path
        there.parent.mkdir(parents=True, exist_ok=True)
        if here.is_file() and not there.exists():
            shutil.copy(here, there)
        step.apply(tmp_path)
        if step.path.endswith(".py"):
            compile(there.read_text(), step.path, "exec")


def test_a_step_needs_its_lines_exactly_once(tmp_path):
    change = Step("Change", "file", " a\n+b\n-c\n")
    (tmp_path / "file").write_text("a\nc\naa\nc\n")  # the second is the end of a longer line
    change.apply(tmp_path)
    assert (tmp_path / "file").read_text() == "a\nb\naa\nc\n"
    for text, times in (("a\nb\n", 0), ("a\nc\n\na\nc\n", 2)):
        (tmp_path / "file").write_text(text)
        with pytest.raises(AssertionError, match=f"{times} times instead of once"):
            change.apply(tmp_path)
    with pytest.raises(AssertionError, match="exists already"):
        Step("Create", "file", "a\n").apply(tmp_path)


def test_a_block_without_a_step_is_noticed():
    with pytest.raises(AssertionError, match="without its step"):
        read_steps("Change `file`\n\n```diff\n a\n+b\n```\n")
