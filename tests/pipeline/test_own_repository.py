"""A repository of others: `mlgo init` writes a pipeline into it, which runs the installed package's rules."""

import json
import re
import shutil

import pytest
import yaml

from mlgo.base.config import merge
from mlgo.host.toolchain import find_linker
from tests.conftest import FLAGS, REPOSITORY, SAMPLE
from tests.pipeline.conftest import WorkingCopy

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("make"), reason="needs make")]

MAKEFILE = f"""\
all: graphs.so texts.so
%.o: %.c
\t$(CC) -Oz -fPIC {" ".join(FLAGS["c"])} -c $< -o $@
%.o: %.cpp
\t$(CXX) -Oz -fPIC {" ".join(FLAGS["c++"])} -c $< -o $@
graphs.so: $(patsubst %.cpp,%.o,$(wildcard graph/*.cpp))
\t$(CXX) -shared -nostdlib $^ -o $@
texts.so: $(patsubst %.c,%.o,$(wildcard lz/*.c codec/*.c calc/*.c)) json/parser.o json/value.o json/writer.o
\t$(CXX) -shared -nostdlib $^ -o $@
"""
CHEAP = {
    "marginal": {"rounds": 1, "members": 2, "max_epochs": 10, "later_epochs": 5, "validation_modules": 4},
    "evaluate": {"resamples": 1000, "max_train_modules": 4},
}
STAGES = ["settings", "corpus", "baseline", "train", "evaluate", "export", "report"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> WorkingCopy:
    """A new repository with two libraries, captured, and the pipeline of `mlgo init`, run once."""
    root = tmp_path_factory.mktemp("own") / "my app's ü"
    root.mkdir()
    for name in ("graph", "lz", "codec", "calc", "json"):
        shutil.copytree(SAMPLE / name, root / "src" / name)
    (root / "src/Makefile").write_text(MAKEFILE)
    (root / ".gitignore").write_text("*.o\n*.so\n")
    own = WorkingCopy(root)
    del own.environment["PYTHONPATH"]
    own.environment["XDG_CACHE_HOME"] = str(root.parent / "cache")
    for tool, words in (("CC", "cc"), ("CXX", "c++")):
        own.environment[tool] = f"{find_linker()} {words}"
    own.succeed("mlgo", "capture", "-o", "captured/two libs", "--root", "src", "--", "make", "-s", "-C", "src")
    own.succeed("mlgo", "init", "--project", "captured/two libs")
    settings = yaml.safe_load((root / "mlgo.yaml").read_text())
    (root / "mlgo.yaml").write_text(yaml.safe_dump(merge(settings, CHEAP)))
    own.succeed("git", "init", "-q")
    own.succeed("dvc", "init", "-q")
    own.succeed("dvc", "add", "-q", "captured/two libs")
    assert ran(own) == STAGES
    own.commit()
    return own


def ran(own: WorkingCopy, *words: str) -> list[str]:
    """Stages that ``dvc repro``, or another command, has run."""
    run = own.succeed("dvc", *(words or ["repro"]))
    return re.findall(r"Running stage '(?:dvc\.yaml:)?(\w+)'", run.stdout + run.stderr)


def test_a_pipeline_of_its_own_leaves_a_policy_and_a_report(repository):
    root = repository.root
    assert (root / "data/policies/marginal-s0/policy.json").is_file()
    assert (root / "data/report/report.html").is_file()
    assert "two-libs-held-out" in (root / "data/report/projects.csv").read_text()
    assert "marginal-s0" in repository.succeed("mlgo", "report").stdout
    assert repository.succeed("git", "status", "--porcelain").stdout == ""  # Git sees no scratch
    assert (
        repository.run("git", "grep", "-e", str(REPOSITORY), "-e", str(root.parent)).returncode == 1
    )  # no machine's path


def test_the_second_time_nothing_runs(repository):
    assert ran(repository) == []
    assert repository.is_done("snakemake", "--cores", "2")


def test_another_version_that_is_required_lets_the_stage_look_at_what_is_installed(repository):
    path = repository.root / "mlgo-projects/requirements.txt"
    before = path.read_text()
    path.write_text("mlgo[train,pipeline]==99.0\n")
    status = json.loads(repository.succeed("dvc", "status", "--json").stdout)
    path.write_text(before)
    assert {"settings", "corpus"} <= {*status}


def test_another_package_makes_all_stages_outdated(repository):
    path = repository.root / "data/settings.json"
    before = path.read_text()
    values = json.loads(before)
    path.write_text(json.dumps({**values, "installed": {**values["installed"], "mlgo": "another"}}))
    status = json.loads(repository.succeed("dvc", "status", "--json").stdout)
    path.write_text(before)
    assert set(STAGES) == {*status}


def test_a_changed_setting_runs_the_stages_that_read_it(repository):
    run = ran(repository, "exp", "run", "-S", "mlgo.yaml:evaluate.resamples=1500")
    assert run == ["settings", "evaluate", "export", "report"]
