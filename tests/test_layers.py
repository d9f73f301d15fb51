"""The order of the packages: an import goes down, never up or sideways."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo.cli.main import find_commands

PACKAGE = Path(__file__).parent.parent / "mlgo"
LEVELS = [
    {"errors"},
    {"objects"},
    {"base"},
    {"host.log"},
    {"host.actions"},
    {"host.tasks"},
    {"host"},
    {"corpus", "policy"},
    {"corpus.capture"},
    {"pool"},
    {"evaluate"},
    {"envs"},
    {"jit"},
    {"learn"},
    {"compare"},
    {"report", "deploy.export"},
    {"deploy"},
    {"cli"},
    {"research"},
]
ABOVE = ("benchmarks", "scripts", "examples", "tests")
"""Folders beside the package: they import it, it imports none of them."""

LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}


def part_of(module: str) -> str:
    """The part of mlgo that a module belongs to: its package, or where that is split in LEVELS, the one beneath."""
    parts = module.split(".")[1:]
    beneath = ".".join(parts[:2])
    return beneath if beneath in LEVEL else parts[0]


def imported_modules(path: Path) -> list[tuple[str, int]]:
    """Modules of this repository that a file of ``mlgo`` imports anywhere in it, with line numbers."""
    found = []
    own = ["mlgo", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*own[: -node.level], *([base] if base else [])])
            if base == "mlgo":
                found += [(f"mlgo.{alias.name}", node.lineno) for alias in node.names]
            else:
                found.append((base, node.lineno))
    return [(name, line) for name, line in found if name.split(".")[0] in ("mlgo", *ABOVE)]


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path):
    module = ".".join(("mlgo", *path.relative_to(PACKAGE).with_suffix("").parts))
    assert not [found for found in imported_modules(path) if found[0].split(".")[0] in ABOVE]
    if module == "mlgo.__main__":
        assert {name for name, _ in imported_modules(path)} == {"mlgo.__version__", "mlgo.cli.main"}
        return
    if module == "mlgo.__init__":
        assert imported_modules(path) == []
        return
    own = part_of(module)
    assert own in LEVEL, f"mlgo/{own} has no level; add it to LEVELS"
    for name, line in imported_modules(path):
        other = part_of(name) if "." in name else "__version__"
        if other in (own, "__version__"):
            continue
        assert other in LEVEL, f"{path}:{line} imports {name}, which has no level"
        assert LEVEL[other] < LEVEL[own], f"{path}:{line}: {own} must not import {other}"


def modules_after(imports: str) -> set[str]:
    program = f"{imports}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


HEAVY = {"tensorflow", "keras", "tensorboard", "scipy", "sklearn", "requests"}


def test_rollouts_do_not_import_what_only_learning_needs():
    loaded = modules_after("import mlgo.evaluate, mlgo.evaluate.baseline, mlgo.evaluate.training")
    assert not loaded & HEAVY


def test_the_learners_import_tensorflow_and_scikit_learn_only_when_they_run():
    learners = "mlgo.learn.bc, mlgo.learn.bcmax, mlgo.learn.es, mlgo.learn.marginal, mlgo.learn.ppo"
    loaded = modules_after(f"import {learners}, mlgo.learn.progress, mlgo.learn.context")
    assert not loaded & HEAVY


def test_the_command_line_starts_without_what_few_commands_need():
    named = "; ".join(f"import {name}" for name in find_commands().values())
    assert not modules_after(named) & HEAVY


def test_workers_do_not_hold_what_only_their_host_needs():
    # A worker forks once per compile, which costs in proportion to its memory.
    loaded = modules_after("import mlgo.pool.local, mlgo.evaluate.episodes, mlgo.policy.policy")
    assert not loaded & {*HEAVY, "pyarrow"}
