"""`mlgo lit` as a user calls it."""

import json
import subprocess
import time

import pytest

from tests.cli.conftest import MLGO
from tests.conftest import WITHIN_S, processes_naming
from tests.research.lit_cases import ANSWERS, INLINE, MUTUAL, write_tests


def test_outcomes_and_status(mlgo, tmp_path):
    folder = write_tests(tmp_path / "tests")
    run = mlgo("lit", folder, "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == {
        "summary": {"passed": 1, "failed": 0, "not applicable": 0},
        "tests": [{"name": "inline.ll", "outcome": "passed", "reason": ""}],
    }
    run = mlgo("lit", folder / "Inputs")
    assert (run.returncode, run.stdout) == (2, "")
    (folder / "inline.ll").write_text(INLINE.replace("CHECK", "NONE") + MUTUAL)
    run = mlgo("lit", folder)
    assert run.returncode == 1
    assert run.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 not applicable"


@pytest.mark.slow
def test_a_kill_leaves_no_process(tmp_path):
    folder = write_tests(tmp_path / "tests")
    (folder / "Inputs" / "answers.py").write_text(
        ANSWERS.replace("    names =", "    __import__('time').sleep(99)\n    names =")
    )

    def wait_for(there: bool) -> None:
        end = time.monotonic() + 3 * WITHIN_S
        while bool(processes_naming("-opt-bisect-verbose=0")) != there:
            assert time.monotonic() < end
            time.sleep(0.05)

    with subprocess.Popen([MLGO, "lit", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(True)
        process.kill()
    wait_for(False)
    assert not processes_naming(str(folder))
