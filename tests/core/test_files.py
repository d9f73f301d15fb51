"""The hash of the package's source."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

PROGRAM = "from mlgo.core.files import source_hash; print(source_hash())"


def hash_of(folder):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("changed", ["core/seeding.py", "learn/driver.py"])
def test_a_change_anywhere_in_the_package_changes_the_hash(changed, tmp_path):
    shutil.copytree(REPOSITORY / "mlgo", tmp_path / "mlgo")
    before = hash_of(tmp_path)
    assert hash_of(tmp_path) == before
    path = tmp_path / "mlgo" / changed
    path.write_text(path.read_text() + "# another line\n")
    assert hash_of(tmp_path) != before
