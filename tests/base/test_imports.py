"""What a program runs, by its imports, and that the stages of DVC depend on it."""

import json
import os
import time
from importlib import import_module

import pytest

from mlgo.base.files import file_sha256
from scripts.lint_workflow import TASKS, ImportGraph, with_imports
from tests.conftest import REPOSITORY


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package called mlgo, with a registry and a program."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "run.py": "from mlgo.base.names import NAMES\ndef main():\n    import mlgo.lazy\n",
        "mlgo/__init__.py": "",
        "mlgo/base/__init__.py": "",
        "mlgo/base/names.py": 'NAMES = {"es": "mlgo.learn.es.learner:LEARNER", "bc": "mlgo.learn.bc:LEARNER"}\n',
        "mlgo/base/unused.py": "",
        "mlgo/lazy.py": 'from mlgo.many import found\nPACKAGES = ("mlgo.many",)\n',
        "mlgo/many/__init__.py": 'from importlib import import_module\nimport_module(f"{__name__}.one")\n',
        "mlgo/many/one.py": "",
        "mlgo/learn/__init__.py": "",
        "mlgo/learn/es/__init__.py": "",
        "mlgo/learn/es/learner.py": "from mlgo.learn.es import loop\n",
        "mlgo/learn/es/loop.py": "",
        "mlgo/learn/bc.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


BASE = ["mlgo/__init__.py", "mlgo/base/__init__.py", "mlgo/base/names.py", "mlgo/lazy.py"]
MANY = ["mlgo/many/__init__.py", "mlgo/many/one.py"]


def test_imports_are_followed_those_in_functions_and_of_whole_packages_too(package):
    assert ImportGraph().files("run.py") == [*BASE, *MANY]


def test_only_what_is_asked_for_of_a_registry_counts(package):
    es = ["mlgo/learn/__init__.py", "mlgo/learn/es/__init__.py", "mlgo/learn/es/learner.py", "mlgo/learn/es/loop.py"]
    assert ImportGraph().files("run.py", ["mlgo.learn.es."]) == [*BASE, *es, *MANY]
    assert "mlgo/learn/bc.py" in ImportGraph().files("run.py", ["mlgo.learn.bc:"])


def test_a_changed_file_is_read_anew(package):
    store = package / "store/imports.json"
    assert ImportGraph(store).files("run.py") == ImportGraph(store).files("run.py") == [*BASE, *MANY]
    (package / "mlgo/lazy.py").write_text("import mlgo.base.unused\n")
    os.utime(package / "mlgo/lazy.py", (time.time() + 5,) * 2)
    assert ImportGraph(store).files("run.py") == sorted(["mlgo/base/unused.py", *BASE])


def test_hashes_are_as_old_as_the_newest_file_until_one_changes(package):
    file, hashes = package / "mlgo/lazy.py", package / "hashes.json"
    for one, time_ns in ((file, 3_000_000_000), (package / "run.py", 2_000_000_000)):
        os.utime(one, ns=(time_ns, time_ns))
    write_hashes = import_module(ImportGraph.__module__).write_hashes
    files = ["run.py", "mlgo/lazy.py"]
    write_hashes(hashes, files, package)
    write_hashes(hashes, files, package)
    assert hashes.stat().st_mtime_ns == 3_000_000_000
    assert json.loads(hashes.read_text()) == {one: file_sha256(package / one) for one in files}
    write_hashes(hashes, ["run.py"], package)
    assert hashes.stat().st_mtime_ns > 3_000_000_000


def test_a_training_depends_on_its_learner_alone(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    graph = ImportGraph()
    files = {one: graph.files("scripts/train.py", [TASKS, f"mlgo.learn.{one}:"]) for one in ("es", "ppo")}
    for one, other in (("es", "ppo"), ("ppo", "es")):
        assert any(file.startswith(f"mlgo/learn/{one}") for file in files[one])
        assert not any(file.startswith(f"mlgo/learn/{other}") for file in files[one])
    assert "mlgo/host/session.py" in files["es"]
    assert "mlgo/objects/measures/built_in.py" in files["es"]


def test_no_stage_that_trains_nothing_depends_on_learners(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    files = ImportGraph().files("scripts/build_project.py")
    assert not any(file.startswith(("mlgo/learn/", "mlgo/evaluate/", "mlgo/report/")) for file in files)


@pytest.mark.slow
def test_the_stages_of_dvc_depend_on_what_their_programs_import(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    stages = (REPOSITORY / "dvc.yaml").read_text()
    assert with_imports(stages) == stages, "run python scripts/lint_workflow.py --write"
