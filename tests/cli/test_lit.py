"""`mlgo lit` as a user calls it."""

import json

from tests.upstream.cases import INLINE, MUTUAL, write_tests


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
