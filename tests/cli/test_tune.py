"""`mlgo tune` on a small captured project: what it finds is a policy that builds what was measured."""

import csv
import json
import shutil

import numpy as np
import pytest

from mlgo.policy.stored import load_policy, save_policy
from tests.cli.conftest import run_here
from tests.cli.test_capture import captured, project
from tests.cli.test_evaluate import policies, refused, sizes
from tests.fakes.policies import linear_policy

__all__ = ["captured", "policies", "project", "refused"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("make"), reason="needs make")]


@pytest.fixture(scope="module")
def tune(captured, policies, mlgo):
    def go(output, *options):
        words = ("tune", captured, "-o", output, "--policy", policies / "never-s0", "--json", *options)
        run = mlgo(*words)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    return go


@pytest.mark.parametrize("form", ["objects", "thin", "whole"])
def test_the_result_is_a_policy_that_builds_what_was_measured(tune, captured, mlgo, tmp_path, form):
    found = tune(tmp_path / "own", "--budget", "60", "--ships", form, "--workers", "2")
    assert found["total"] <= found["heuristic"] < found["base"]  # which inlines twice into used
    with (tmp_path / "own/decisions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert found["calls"] == len(rows) > 0
    assert {row["decision"] for row in rows} == {"inline"}
    assert ("used", "twice") in {(row["caller"], row["callee"]) for row in rows}
    words = ("--policy", tmp_path / "own", "--project", captured, "--ships", form, "--no-references", "--json")
    run = mlgo("evaluate", *words, "--output", tmp_path / "evaluated")
    assert run.returncode == 0, run.stderr
    shipped = json.loads(run.stdout)["shipped"]
    names = {row["program"] for row in shipped}
    assert sum(sizes(shipped, name, "own-s0")["total"] for name in names) == found["total"]
    assert tune(tmp_path / "other", "--budget", "60", "--ships", form, "--workers", "1") == found
    for name in ("policy.json", "weights.npy", "decisions.csv"):
        assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_second_call_goes_on(tune, policies, tmp_path, refused, captured):
    first = tune(tmp_path / "own", "--budget", "30")
    again = tune(tmp_path / "own", "--budget", "60")
    assert first["num_compiles"] < again["num_compiles"] <= 60
    assert again["total"] <= first["total"]
    save_policy(linear_policy("inline-size", ["cost_estimate"], [0, 1]), tmp_path / "always-s0")
    words = ("-o", tmp_path / "own", "--policy", tmp_path / "always-s0")

    def refusal(*options):
        with pytest.raises(Exception) as error:  # noqa: PT011
            run_here("tune", captured, *options)
        return str(error.value)

    assert "was tuned with another base_sha256; name a new folder, or begin with it: --update" in refusal(*words)
    assert "holds no result to begin with" in refusal("-o", tmp_path / "new", "--update")
    assert "name it as --output, or name its base" in refusal("-o", tmp_path / "new", "--policy", tmp_path / "own")
    before = load_policy(tmp_path / "own")
    updated = tune(tmp_path / "own", "--budget", "30", "--update")
    assert updated["total"] <= again["total"]
    assert np.array_equal(load_policy(tmp_path / "own").weights, before.weights)


def test_a_budget_below_the_start_is_refused(captured, policies, tmp_path):
    with pytest.raises(Exception, match="3 compiles are below what the start costs; give --budget 1") as error:
        run_here("tune", captured, "-o", tmp_path / "own", "--policy", policies / "never-s0", "--budget", "3")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "own" / "policy.json").exists()
