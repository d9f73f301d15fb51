"""Programs of Debian in their own build systems; their sources are fetched, so this needs a network and `apt-get`."""

import json
import subprocess
import sys

import pytest

from scripts.debian_builds import BUILDS
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

MOST_LEFT_OUT = 0.03


@pytest.mark.parametrize("name", BUILDS)
def test_a_package_of_debian(name, tmp_path):
    command = [sys.executable, "scripts/debian_builds.py", "--output", tmp_path, "--json", name]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (found,) = json.loads(run.stdout)
    captured = found["captured"]
    assert captured["left_out"] <= MOST_LEFT_OUT * (captured["modules"] + captured["left_out"]), captured["reasons"]
    assert captured["programs"] > 0
    for form in ("policy", "whole"):
        assert found[form]["tests"] == found["plain"]["tests"], found
        assert found[form]["bytes"] > 0
