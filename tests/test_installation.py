"""The wheel alone, in an environment of its own: what a user has who installs the tool and no checkout."""

import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mlgo.base.packages import requirements
from mlgo.cli.main import COMMANDS
from scripts.build_dist import EPOCH
from tests.conftest import REPOSITORY

BASE = ("doctor", "capture", "compile", "cc", "c++", "ld", "evaluate", "replay", "size-diff", "report")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
PAGES_OF_EVALUATE = ("mlgo.report.inputs", "mlgo.report.policy_page", "mlgo.report.headline_page")
MOST_MB = 700

CALLED = "static int triple(int x) { return 3 * x; }\nint use(int x) { return triple(x) + triple(x + 1); }\n"
MAIN = "int use(int);\nint main(int argc, char **) { return use(argc) == 9 ? 0 : 1; }\n"
MAKEFILE = """\
program: main.o called.o
\t$(CXX) -o $@ $^
%.o: %.cpp
\t$(CXX) -Oz -c $< -o $@
"""
EPISODE = """
import mlgo
with mlgo.make_env("inline-size", modules=["called.cpp"]) as env:
    observation, info = env.reset(seed=1)
    ended = False
    while not ended:
        observation, reward, ended, _, info = env.step(1)
print(info["module"], mlgo.read_table)
"""


def named(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def needed_by(names: set[str]) -> set[str]:
    """Packages with all that they need, without extras."""
    found: set[str] = set()
    while more := names - found:
        found |= more
        needs = [Requirement(one) for name in more for one in requires(name) or ()]
        names = {canonicalize_name(one.name) for one in needs if not one.marker or one.marker.evaluate({"extra": ""})}
    return found


WITHOUT = """
import sys
from importlib import import_module
refused = set(sys.argv[1].split())
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refusal())
for module in sys.argv[2].split():
    import_module(module)
"""


def test_base_commands_can_be_imported_without_what_extras_bring():
    """Libraries may import more where they find it, so all else is hidden."""
    base = needed_by({named(one) for one in PROJECT["dependencies"]}) | {"mlgo", "setuptools"}
    others = [name for name, of in packages_distributions().items() if not base & set(map(canonicalize_name, of))]
    modules = [COMMANDS[name] for name in BASE] + ["mlgo.envs", *PAGES_OF_EVALUATE]
    command = [sys.executable, "-c", WITHOUT, " ".join(others), " ".join(modules)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


def test_extras_are_those_of_pyproject():
    assert {one.name for one in requirements()} == {Requirement(one).name for one in PROJECT["dependencies"]}
    for extra, listed in PROJECT["optional-dependencies"].items():
        assert [one.name for one in requirements(extra)] == [Requirement(one).name for one in listed]
    assert not [one for one in PROJECT["dependencies"] if Requirement(one).marker]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build(output: Path) -> list[Path]:
    program = [sys.executable, "scripts/build_dist.py", "-o", str(output)]
    subprocess.run(program, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    return sorted(output.iterdir())


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory):
    """Folder of programs of an environment that has the wheel and what pip finds for it."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        reached = subprocess.run([*pip, "tqdm"], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("the package index does not answer")
    if reached.returncode:
        pytest.skip(f"there is no package index here: {reached.stderr.strip().splitlines()[-1]}")
    empty = _megabytes(folder)
    (wheel,) = (path for path in dist if path.suffix == ".whl")
    run = subprocess.run([*pip, wheel], capture_output=True, text=True, timeout=570)
    assert run.returncode == 0, run.stderr
    assert _megabytes(folder) - empty <= MOST_MB
    return folder / "bin"


def _megabytes(folder: Path) -> int:
    run = subprocess.run(["du", "-sm", folder], capture_output=True, text=True, check=True, timeout=60)
    return int(run.stdout.split()[0])


@pytest.fixture(scope="module")
def run(environment, tmp_path_factory):
    """Run a program of the environment, in an empty folder and with an empty home."""
    folder, home = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("home")

    def go(name: str, *words: object, status: int = 0, **variables: str):
        command = [environment / name, *map(str, words)]
        path = f"{environment}:/usr/local/bin:/usr/bin:/bin"
        variables = {"PATH": path, "HOME": str(home), "TMPDIR": os.environ["TMPDIR"], "LANG": "C.UTF-8"} | variables
        found = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
        assert found.returncode == status, found.stderr
        return found

    go.folder = folder
    (folder / "called.cpp").write_text(CALLED)
    (folder / "main.cpp").write_text(MAIN)
    (folder / "Makefile").write_text(MAKEFILE)
    return go


@pytest.mark.slow
def test_the_distributions_are_the_same_bytes_each_time(dist, tmp_path):
    for one, other in zip(dist, build(tmp_path), strict=True):
        assert one.name == other.name
        assert sha256(one) == sha256(other)
    wheel, sdist = dist
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        tmp_path / "pip",
    ]
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run([*pip, sdist], check=True, capture_output=True, timeout=300, env=environment)
    assert sha256(tmp_path / "pip" / wheel.name) == sha256(wheel)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_base_command_works_in_an_empty_folder(run):
    doctor = json.loads(run("mlgo", "doctor", "--json").stdout)
    assert doctor["ok"]
    assert "pip install 'mlgo[train]'" in str([one for one in doctor["checks"] if one["name"] == "tensorflow"])
    listed = run("python", "-m", "pip", "list", "--format", "json", "--disable-pip-version-check").stdout
    found = {canonicalize_name(one["name"]) for one in json.loads(listed)}
    assert not found & {"tensorflow", "keras", "tensorboard", "snakemake", "dvc", "scipy", "scikit-learn"}
    assert re.fullmatch(r"mlgo \S+\n", run("mlgo", "--version").stdout)

    assert "text_bytes" in run("mlgo", "compile", "called.cpp", "--policy", "never").stdout
    run("mlgo", "compile", "called.cpp", "--policy", "tree8-s0", "--log", "called.episode", "-o", "before.o")
    assert "equal" in run("mlgo", "replay", "episode", "called.episode", "--policy", "tree8-s0").stdout
    run("mlgo", "c++", "--log", "log", "--", "-Oz", "-c", "called.cpp", "-o", "called.o")
    run("mlgo", "c++", "--plain", "--", "-Oz", "-c", "called.cpp", "-o", "plain.o")
    assert json.loads((run.folder / "log").read_text())["outcome"] == "advised"
    assert "total" in run("mlgo", "size-diff", "plain.o", "called.o").stdout
    make = ("make", "-B", "CXX=c++", "program")
    run("mlgo", "capture", "-o", "captured/app", "--root", ".", "--", *make)
    result = run("mlgo", "evaluate", "--policy", "marginal-s0", "--project", "captured/app", "--json")
    evaluated = json.loads(result.stdout)
    assert (evaluated["modules"], evaluated["failed"]) == (2, 0)
    assert Path(run.folder, evaluated["page"]).stat().st_size < 2_000_000
    for name, text in (("called", CALLED), ("main", MAIN.replace("**)", "**argv)"))):  # zig builds no C++ library for C
        (run.folder / f"{name}.c").write_text(text)
        run("mlgo", "cc", "--whole", "--", "-Oz", "-c", f"{name}.c")
    run("mlgo", "ld", "--", "-Oz", "called.o", "main.o", "-o", "linked")
    assert subprocess.run([run.folder / "linked"], timeout=10).returncode == 0
    kept = REPOSITORY / "docs/results/sealed"
    assert "what ships, in total" in run("mlgo", "report", "truth", "--data", kept).stdout
    assert run("python", "-c", EPISODE).stdout.startswith("called.cpp")


@pytest.mark.slow
def test_extras_that_are_missing_are_named(run):
    (run.folder / "model").mkdir()
    (run.folder / "model/saved_model.pb").touch()
    refused = run("mlgo", "import", "model", "-o", "other-s0", status=1).stderr
    assert refused.endswith("(not installed); run pip install 'mlgo[train,import]'\n")
    assert refused.count("\n") == 1  # no traceback
    program = "import mlgo.base.packages as packages; packages.pin_package('numpy', '2.4.0', 'sdist')"
    assert "run pip install 'mlgo[index]'" in run("python", "-c", program, status=1).stderr


@pytest.mark.slow
def test_times_of_a_start(environment, run):
    """Medians of 20: a version under 0.1 s, and an import under 0.05 s more than Python takes."""
    times = {"version": [], "import": [], "nothing": []}
    for _ in range(20):
        for name, words in (
            ("version", ("mlgo", "--version")),
            ("import", ("python", "-c", "import mlgo")),
            ("nothing", ("python", "-c", "")),
        ):
            started = time.perf_counter()
            run(*words)
            times[name].append(time.perf_counter() - started)
    median = {name: statistics.median(values) for name, values in times.items()}
    if median["nothing"] > 0.04:
        pytest.skip(f"this machine is busy: Python alone takes {median['nothing']:.3f} s")
    assert median["version"] < 0.1
    assert median["import"] - median["nothing"] < 0.05
