"""`mlgo report budgets`: what trainings have found within so many compiles, from histories that were kept."""

import json
import subprocess
import sys

import pytest

from mlgo.base.files import write_text
from tests.conftest import REPOSITORY, WITHIN_S
from tests.research.test_scoreboard import write_run

HISTORIES = {
    "es-s0": "generation,evaluations,validation_reward\n0,100,0.0\n1,1000,0.03\n",
    "es-s1": "generation,evaluations,validation_reward\n0,100,0.0\n1,1000,0.01\n",
    "es-long-s0": "generation,evaluations,validation_reward\n0,100,0.0\n1,10000,0.05\n",
    "bc-s0": "epoch,loss\n0,0.5\n",
}


@pytest.fixture
def data(tmp_path):
    for name, history in HISTORIES.items():
        folder = tmp_path / "policies" / name
        folder.mkdir(parents=True)
        (folder / "history.csv").write_text(history)
    return tmp_path


def test_table_and_page(mlgo, data):
    page = data / "page.md"
    run = mlgo("report", "budgets", "--data", data, "--markdown", page)
    assert run.returncode == 0, run.stderr
    head, _, short, long, *_ = page.read_text().splitlines()
    assert (
        head == "| learner | seeds | 100 compiles | 300 compiles | 1,000 compiles | 3,000 compiles | 10,000 compiles |"
    )
    assert short == "| es | 2 | +0.00 % (+0.00 to +0.00) | +0.00 % (+0.00 to +0.00) | +2.00 % (+1.00 to +3.00) |  |  |"
    assert long.endswith("| +0.00 % (+0.00 to +0.00) | +5.00 % (+5.00 to +5.00) |")
    assert "+2.00 % (+1.00 to +3.00)" in run.stdout


def test_json_by_budget(mlgo, data):
    short, long = json.loads(mlgo("report", "budgets", "--data", data, "--json").stdout)
    assert (long["learner"], short["learner"], short["seeds"]) == ("es-long", "es", [0, 1])
    assert short["gains"]["1000"] == [0.03, 0.01]
    assert short["gains"]["3000"] is None  # 1,000 compiles do not tell what 3,000 would have found
    assert long["gains"]["10000"] == [0.05]


def test_nothing_was_trained(mlgo, tmp_path):
    run = mlgo("report", "budgets", "--data", tmp_path)
    assert run.returncode == 1
    assert "holds no training that compiles" in run.stderr
    assert "run: snakemake" in run.stderr


def test_histories_that_are_kept_tell_the_same(mlgo, tmp_path):
    data, kept = write_run(tmp_path / "data"), tmp_path / "kept"
    write_text(kept / "policies/gone-s0/history.csv", HISTORIES["es-s0"])  # of an earlier run
    command = [sys.executable, "scripts/keep_results.py", "--data", data, "--output", kept]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=WITHIN_S)
    first, second = (json.loads(mlgo("report", "budgets", "--data", one, "--json").stdout) for one in (data, kept))
    assert first == second
    assert (kept / "evaluation/results.parquet").exists()
