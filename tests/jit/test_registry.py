"""Problems by name: this package's own, and those of other packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo.base.config import json_schema
from mlgo.base.registry import PROBLEMS
from mlgo.host.tasks.task import get_task
from tests.cli.conftest import MLGO
from tests.conftest import REPOSITORY, SAMPLE

TINY = '''"""Inlining for executable bytes."""

from dataclasses import replace

from mlgo.objects.measures.built_in import EXEC
from mlgo.host.tasks.task import get_task

TINY = replace(get_task("inline-size"), name="tiny-inline", title="Tiny", measure=EXEC)
'''


def install(folder, points: str, code: str = TINY) -> None:
    """Put a package beside its metadata, as an installer does."""
    (folder / "tiny").mkdir()
    (folder / "tiny/__init__.py").write_text(code)
    metadata = folder / "tiny-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(f"[mlgo.problems]\n{points}\n")


def run(folder, *command: str | Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)])}
    return subprocess.run([*command], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def test_own_problems_are_those_of_the_folders():
    assert {"inline-size", "jit-cse", "regalloc-evict", "regalloc-priority"} <= set(PROBLEMS.names())
    assert [PROBLEMS.get(name).kind for name in ("jit-cse", "inline-size")] == ["choices", "modules"]
    for name in PROBLEMS.built_in:
        problem = PROBLEMS.get(name)
        assert problem.name == name
        assert problem.title.endswith(("against the built-in heuristic", "against the built-in allocator"))
    assert json_schema()["properties"]["task"]["enum"] == PROBLEMS.names()
    assert get_task("inline-size") is PROBLEMS.get("inline-size")


@pytest.mark.slow
def test_another_package_adds_a_problem(tmp_path):
    install(tmp_path, "tiny-inline = tiny:TINY")
    names = run(tmp_path, sys.executable, "-c", "from mlgo.base.registry import PROBLEMS; print(*PROBLEMS.names())")
    assert names.stdout.split() == sorted([*PROBLEMS.built_in, "tiny-inline"])
    module = str(SAMPLE / "json/parser.cpp")
    compiled = run(tmp_path, MLGO, "compile", module, "--task", "tiny-inline", "--policy", "never", "--json")
    assert json.loads(compiled.stdout)["exec_bytes"] > 0, compiled.stderr
    (tmp_path / "tiny.yaml").write_text("task: tiny-inline\ncompile:\n  objective: exec_bytes\n")
    shown = run(tmp_path, MLGO, "config", "show", "--preset", str(tmp_path / "tiny.yaml"))
    assert "tiny-inline" in shown.stdout, shown.stderr
    code = "import gymnasium, mlgo.envs; print(gymnasium.make('mlgo/TinyInline-v0').unwrapped.settings.objective)"
    assert run(tmp_path, sys.executable, "-c", code).stdout == "exec_bytes\n"


@pytest.mark.parametrize(
    ("points", "code", "message"),
    [
        ("jit-cse = tiny:TINY", TINY, "package tiny registers task 'jit-cse', which mlgo has already"),
        ("lost = nowhere:TINY", TINY, "task 'lost' of package tiny cannot be loaded from nowhere:TINY (ModuleNotFound"),
        ("lost = tiny:TINY", "1 / 0\n", "cannot be loaded from tiny:TINY (ZeroDivisionError: division by zero)"),
        ("other = tiny:TINY", TINY, "tiny:TINY of package tiny is no task called 'other'"),
    ],
)
def test_bad_entry_points_end_in_one_line(tmp_path, points, code, message):
    install(tmp_path, points, code)
    task = points.split(" ")[0]
    found = run(tmp_path, MLGO, "compile", str(SAMPLE / "lz/match.c"), "--task", task, "--policy", "never")
    assert found.returncode == 1
    assert found.stderr.startswith("error: ")
    assert message in found.stderr
    assert found.stderr.count("\n") == 1
