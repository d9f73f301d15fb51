"""`mlgo report headroom`: tables of what the search found."""

import json

import pytest

from mlgo.base.artifacts import HEADROOM, RESULTS, SHIPPED_SIZES, write_rows
from tests.compare.conftest import shipped_rows
from tests.compare.test_headroom import result_rows, search_rows

SEARCHED = {"heuristic": 1_000, "es-s0": 900, "search": 800}
"""Text of a linked file, whose unwind tables change alike."""


@pytest.fixture
def data(tmp_path):
    """A folder of results."""
    write_rows(tmp_path / "headroom" / "headroom.parquet", search_rows(), HEADROOM, {})
    write_rows(tmp_path / "evaluation" / "results.parquet", result_rows(1000, 1750, 500), RESULTS, {})
    return tmp_path


def test_table(mlgo, data):
    run = mlgo("report", "headroom", "--data", data)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    policy, best = ([cell.strip() for cell in line.split("  ") if cell] for line in lines[7:9])
    gains = ["+4.41 % (-25.00 to +8.33)", "-7.04 % (-25.00 to +8.33)"]  # of p 250 of 3,000; of q -100 of 400
    assert policy == ["es-s0", "3", "3,400", "3,250", *gains, "no verdict: 2 projects, six are needed", "+25.00 %"]
    assert best == ["best known", "3", "3,400", "2,800", "+17.65 % (0.00 to +20.00)", "+10.56 % (0.00 to +20.00)", "-"]
    assert [lines[i - 1] for i, line in enumerate(lines) if "modules " in line] == ["All modules", "C", "C++", "p", "q"]


def test_json(mlgo, data):
    rows = json.loads(mlgo("report", "headroom", "--data", data, "--json", "--measure", "exec_bytes").stdout)
    (row,) = [row for row in rows if (row["scope"], row["contender"]) == ("all", "es-s0")]
    assert (row["total_share"], row["best_sum"], row["measure"]) == (0.25, 2800, "exec_bytes")


def test_what_is_missing_and_how_to_make_it(mlgo, tmp_path):
    run = mlgo("report", "headroom", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"error: {tmp_path}/headroom/headroom.parquet is missing; make it with: make headroom\n"


def test_help_has_an_example(mlgo):
    assert "of: make headroom" in mlgo("report", "--help").stdout


def test_of_linked_files_that_an_evaluation_searched(mlgo, tmp_path):
    rows = [shipped_rows("a", "one", name, text) for name, text in SEARCHED.items()]
    write_rows(tmp_path / "evaluation/shipped.parquet", [row for some in rows for row in some], SHIPPED_SIZES, {})
    run = mlgo("report", "headroom", "--data", tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    cells = [cell.strip() for cell in run.stdout.splitlines()[3].split("  ") if cell]
    assert cells == ["es-s0", "all", "1", "2,100", "+5.24 %", "+10.48 %", "+50.00 %"]  # 110 and 220 of 2,100 bytes
    (row, *_) = json.loads(mlgo("report", "headroom", "--data", tmp_path, "--json").stdout)
    assert row["contender"] == "es-s0"
