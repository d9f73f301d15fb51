"""The hooks of pre-commit: programs of the environment, which find what they should."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY

CONFIG = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
HOOKS = {hook["id"]: hook for repository in CONFIG["repos"] for hook in repository["hooks"]}


def run(hook, *files):
    program, *arguments = shlex.split(HOOKS[hook]["entry"])
    command = [Path(sys.executable).with_name(program), *arguments, *files]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_nothing_is_downloaded():
    assert [repository["repo"] for repository in CONFIG["repos"]] == ["local"]
    assert {hook["language"] for hook in HOOKS.values()} == {"system"}


@pytest.mark.parametrize(
    ("hook", "name", "text", "mended"),
    [
        ("ruff", "import.py", "import os\n", ""),
        ("ruff-format", "quotes.py", "A = 'a'\n", 'A = "a"\n'),
        ("snakefmt", "rule.smk", "rule a:\n  input: 'b'\n", 'rule a:\n    input:\n        "b",\n'),
    ],
)
def test_what_can_be_mended_is(hook, name, text, mended, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    run(hook, path)
    assert path.read_text() == mended


def test_snakefmt_is_given_the_rules():
    rules = [path.relative_to(REPOSITORY) for path in (REPOSITORY / "workflow").rglob("*.smk")]
    assert all(re.search(HOOKS["snakefmt"]["files"], str(path)) for path in (*rules, "Snakefile"))
    assert not re.search(HOOKS["snakefmt"]["files"], "scripts/Snakefile")


@pytest.mark.slow
def test_types_are_checked_as_a_whole():
    assert HOOKS["mypy"]["pass_filenames"] is False
    assert run("mypy").returncode == 0
