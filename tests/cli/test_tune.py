"""`mlgo tune` on a small captured project: what it finds is a policy that builds what was measured."""

import contextlib
import csv
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, read_provenance, read_table, write_table
from mlgo.errors import ArtifactError, ConfigError, CorpusError
from mlgo.policy.stored import load_policy, save_policy
from tests.cli.conftest import run_here
from tests.cli.test_capture import captured, project
from tests.cli.test_evaluate import policies, refused, sizes
from tests.conftest import REPOSITORY
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
    # The heuristic inlines twice into used. Merged, it has done so in one of the variants already.
    assert found["total"] <= found["heuristic"] <= found["base"]
    assert (found["heuristic"] < found["base"]) == (form != "whole")
    with (tmp_path / "own/decisions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert found["calls"] == len(rows)
    assert {row["decision"] for row in rows} == (set() if form == "whole" else {"inline"})
    assert (("used", "twice") in {(row["caller"], row["callee"]) for row in rows}) == (form != "whole")
    words = ("--policy", tmp_path / "own", "--project", captured, "--ships", form, "--no-references", "--json")
    run = mlgo("evaluate", *words, "--output", tmp_path / "evaluated")
    assert run.returncode == 0, run.stderr
    shipped = json.loads(run.stdout)["shipped"]
    names = {row["program"] for row in shipped}
    assert sum(sizes(shipped, name, "own-s0")["total"] for name in names) == found["total"]
    assert tune(tmp_path / "other", "--budget", "60", "--ships", form, "--workers", "1") == found
    own, other = ({path.name: path.read_bytes() for path in (tmp_path / one).iterdir()} for one in ("own", "other"))
    assert own == other
    assert own.keys() >= {"policy.json", "weights.npy", "decisions.csv", "report.html"}
    assert ("labels.parquet" in own) == (form != "whole")  # where nothing is asked
    page = own["report.html"].decode()
    assert "thing, tuned" in page
    assert ("twice" in page) == (form != "whole")


def test_a_second_call_goes_on(tune, policies, tmp_path, refused, captured):
    first = tune(tmp_path / "own", "--budget", "30")
    labels = read_table(tmp_path / "own/labels.parquet").to_pylist()
    again = tune(tmp_path / "own", "--budget", "60")
    both = read_table(tmp_path / "own/labels.parquet").to_pylist()
    assert both[: len(labels)] == labels
    assert min(row["round"] for row in both[len(labels) :]) == max(row["round"] for row in labels) + 1
    assert first["num_compiles"] < again["num_compiles"] <= 60
    assert again["total"] <= first["total"]
    assert again["course"][: len(first["course"])] == first["course"]
    compiles, totals = zip(*again["course"], strict=True)
    assert (list(compiles), list(totals)) == (sorted(compiles), sorted(totals, reverse=True))
    assert (totals[-1], compiles[-1] <= again["num_compiles"]) == (again["total"], True)
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


def test_an_interrupted_search_keeps_the_best_so_far(tune, captured, policies, tmp_path, monkeypatch, capsys):
    saved = []

    def save(policy, folder):
        save_policy(policy, folder)
        saved.append(policy.origin["tuned"]["total"])
        if len(saved) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("mlgo.cli.tune.save_policy", save)
    words = ("-o", tmp_path / "own", "--policy", policies / "never-s0", "--budget", "60")
    with pytest.raises(KeyboardInterrupt):
        run_here("tune", captured, *words)
    assert f"{tmp_path / 'own'} holds the best so far; the same command goes on" in capsys.readouterr().err
    assert load_policy(tmp_path / "own").origin["tuned"]["total"] == saved[-1]
    monkeypatch.undo()
    assert tune(tmp_path / "own", "--budget", "60")["total"] <= saved[-1]


def test_a_full_disk_loses_no_earlier_result(tune, captured, policies, small_disk):
    folder = small_disk / "own"
    first = tune(folder, "--budget", "30")
    with contextlib.suppress(OSError), (small_disk / "full").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(ArtifactError, match="no space left on the device") as error:
        run_here("tune", captured, "-o", folder, "--policy", policies / "never-s0", "--budget", "60")
    assert "\n" not in str(error.value)
    assert load_policy(folder).origin["tuned"]["total"] == first["total"]
    (small_disk / "full").unlink()
    assert tune(folder, "--budget", "60")["total"] <= first["total"]


def test_one_linked_file_alone(tune, captured, policies, tmp_path):
    parts = [tune(tmp_path / name, "--budget", "20", "--program", name) for name in ("prog", "lib.so")]
    both = tune(tmp_path / "both", "--budget", "20")
    assert [sum(part[size] for part in parts) for size in ("heuristic", "base")] == [both["heuristic"], both["base"]]
    with pytest.raises(ConfigError, match=r"--program lib: .* has prog, lib.so"):
        run_here("tune", captured, "-o", tmp_path / "own", "--policy", policies / "never-s0", "--program", "lib")


def test_a_project_without_linked_files_is_refused(captured, policies, tmp_path):
    project = shutil.copytree(captured, tmp_path / "objects")
    programs = project / "programs.parquet"
    write_table(programs, PROGRAMS_OF_PROJECT.empty_table(), PROGRAMS_OF_PROJECT, read_provenance(programs))
    with pytest.raises(CorpusError, match="has no linked file to make smaller; capture a build that links"):
        run_here("tune", project, "-o", tmp_path / "own", "--policy", policies / "never-s0")
    assert not (tmp_path / "own").exists()


def test_the_benchmark_searches_as_tune_does_and_in_rounds_over_calls(tune, captured, policies, tmp_path):
    words = ("--policy", policies / "never-s0", "--budget", "20", "56", "--json")
    command = [sys.executable, "-m", "benchmarks.autotuner", captured, *words]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    tuned = tune(tmp_path / "own", "--budget", "64")  # of which 8 are beside the search: the heuristic, and the result
    assert (found["policy"], found["search_56"]) == (tuned["base"], tuned["total"])
    for method in ("search", "rounds"):
        assert found[f"{method}_56"] <= found[f"{method}_20"] <= found["policy"]
    assert found["rounds_56"] < found["policy"]
