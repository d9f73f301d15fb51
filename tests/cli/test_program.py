"""Failures that are results, and those that are not."""

import os
import subprocess
import sys

import pytest

from mlgo.base.files import read_record
from mlgo.errors import PolicyError
from mlgo.policy.stored import FAILURE, load_policy

PROGRAM = """
from mlgo.cli.program import run_program
from mlgo.errors import ArtifactError, TrainingError

def main():
    raise {error}("no module is left; raise es.max_questions")

run_program(main)
"""


def run(error, folder, **environment):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(error=error)],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("error", "status"), [("TrainingError", 0), ("ArtifactError", 1)])
def test_what_lies_in_the_settings_is_a_result(error, status, tmp_path):
    path = tmp_path / "es-s0" / FAILURE
    done = run(error, tmp_path, MLGO_FAILURE=str(path))
    assert done.returncode == status
    assert done.stderr == "error: no module is left; raise es.max_questions\n"
    if status:
        assert not path.exists()  # a file that is missing may be there next time
        return
    assert read_record(path) == {"message": "no module is left; raise es.max_questions"}
    with pytest.raises(PolicyError, match=r"its training failed: no module is left; raise es\.max_questions"):
        load_policy(path.parent)


def test_without_a_place_for_it_a_failure_is_an_error(tmp_path):
    done = run("TrainingError", tmp_path)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []
