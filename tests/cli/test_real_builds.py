"""Real builds of other people's projects, one of each kind; they are fetched, so this needs a network."""

import json
import subprocess
import sys

import pytest

from tests.cli.test_evaluate import policies
from tests.conftest import REPOSITORY

__all__ = ["policies"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", ["pyclipper", "contourpy", "ninja", "libsodium", "fasttext"])
def test_a_real_build(name, policies, tmp_path):
    options = ["--policy", policies / "always-s0", "--output", tmp_path, "--no-training", name]
    command = [sys.executable, "scripts/real_builds.py", *options]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["modules"] > 0
    assert found["reproduced"] >= 0.95 * found["modules"], found["reasons"]
    assert found["shipped_bytes"] > 0
    assert "failed" not in found["tests"]
    assert ", not " not in found["tests"]
