"""The package mlgo-policies in an environment of its own, and `mlgo cc` with what it brings."""

import importlib
import json
import shutil
import subprocess
import sys

import pytest

from mlgo.deploy.drivers import DriverChoice, default_policy, find_policy
from mlgo.deploy.installed import names
from mlgo.deploy.release import find_policies
from mlgo.errors import PolicyError
from tests.conftest import REPOSITORY
from tests.deploy.conftest import CALLS, Build
from tests.deploy.publish.conftest import RELEASED


@pytest.fixture
def installed(wheel, tmp_path, monkeypatch):
    shutil.unpack_archive(wheel, tmp_path / "packages", "zip")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    yield tmp_path / "packages/mlgo_policies/policies"
    sys.modules.pop("mlgo_policies", None)


def test_the_installed_policy_is_the_default(installed):
    assert default_policy() == installed / "marginal-s0"
    assert find_policy("tree8-s0") == installed / "tree8-s0"
    assert find_policy(str(RELEASED / "tree8-s0")) == RELEASED / "tree8-s0"
    package = importlib.import_module("mlgo_policies")
    assert (package.path("tree8-s0") / "README.md").read_text().startswith("# tree8-s0 1.0.0\n")
    with pytest.raises(KeyError):
        package.path("../..")
    with pytest.raises(PolicyError, match="no installed policy; installed are marginal-s0, tree8-s0"):
        find_policy("other")


def test_without_the_package_there_are_those_of_mlgo():
    assert default_policy().resolve() == RELEASED / "marginal-s0"
    assert find_policy("tree8-s0").resolve() == RELEASED / "tree8-s0"
    with pytest.raises(PolicyError, match=r"no installed policy; installed are marginal-s0, tree8-s0$"):
        find_policy("other")
    assert names() == [path.name for path in find_policies(RELEASED)]


def test_an_installed_policy_may_be_named(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    by_name, by_folder, default = (DriverChoice.of(name) for name in ("tree8-s0", str(installed / "tree8-s0"), ""))
    assert by_name.policy == by_folder.policy == installed / "tree8-s0"
    assert by_name.place == by_folder.place != default.place
    assert (by_name.is_default, default.is_default) == (False, True)


@pytest.mark.slow
def test_a_compile_right_after_the_installation(wheel, build, cache, monkeypatch):
    """From a folder that is no checkout, with mlgo installed as a package is: with mlgo-policies and without."""
    environment, program = build.folder / "venv", build.folder / "work"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
    python = environment / "bin/python3"
    packages = next(environment.glob("lib/python*/site-packages"))
    shutil.copytree(REPOSITORY / "mlgo", packages / "mlgo")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    shutil.copy(REPOSITORY / "bin/mlgo", environment / "bin/mlgo")
    program.mkdir()
    (program / "calls.c").write_text(CALLS)

    def run(*command):
        return Build(program).run(*command, PYTHONPATH="", MLGO_CACHE=str(build.folder / "cache"))

    def compiled(*options):
        return run(
            environment / "bin/mlgo", "cc", "--languages", "c", "--log", "log", *options, "--", "-Oz", "-c", "calls.c"
        )

    def policy_of_default():
        (known,) = (build.folder / "cache/drivers").glob(f"default{environment}/bin/@/made_from.json")
        (found,) = (name for name in json.loads(known.read_text()) if name.endswith("policy.json"))
        return found

    without = compiled()
    assert (without.returncode, without.stderr) == (0, "")
    assert policy_of_default() == (own := str(packages / "mlgo/deploy/policies/marginal-s0/policy.json"))
    pip = run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
    assert pip.returncode == 0, pip.stderr
    default, by_name = compiled(), compiled("--policy", "tree8-s0")
    assert (default.returncode, default.stderr) == (by_name.returncode, by_name.stderr) == (0, "")
    log = (program / "log").read_text()
    assert log.count('"outcome":"advised"') == 3, log
    assert policy_of_default() == str(packages / "mlgo_policies/policies/marginal-s0/policy.json")
    shutil.move(python, environment / "python3")  # drivers are there, so nothing of this needs Python
    assert compiled("--policy", "tree8-s0").stderr == ""
    shutil.move(environment / "python3", python)
    shown = run(python, "-m", "pip", "show", "mlgo-policies").stdout
    assert "Version: 1.0.0\n" in shown
    assert "License-Expression: Apache-2.0\n" in shown or "License: " in shown
    assert run(python, "-m", "pip", "uninstall", "--yes", "mlgo-policies").returncode == 0
    assert (compiled().returncode, policy_of_default()) == (0, own)
