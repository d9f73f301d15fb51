"""`mlgo headroom`: tables of what the search found."""

import json

import pytest

from mlgo.core.artifacts import HEADROOM, RESULTS, write_rows
from tests.report.test_headroom import result_rows, search_rows


@pytest.fixture
def data(tmp_path):
    """A folder of results."""
    write_rows(tmp_path / "headroom" / "headroom.parquet", search_rows(), HEADROOM, {})
    write_rows(tmp_path / "evaluation" / "results.parquet", result_rows(1000, 1750, 500), RESULTS, {})
    return tmp_path


def test_table(mlgo, data):
    run = mlgo("headroom", "--data", data)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[6].split() == ["es-s0", "3", "3400", "3250", "+4.41%", "-3.03%", "+25.0", "%"]
    assert lines[7].split() == ["best", "known", "3", "3400", "2800", "+17.65%", "+12.28%"]
    assert [line.split()[0] for line in lines if " modules " in line] == ["all", "c", "c++", "p", "q"]


def test_json(mlgo, data):
    rows = json.loads(mlgo("headroom", "--data", data, "--json", "--measure", "exec_bytes").stdout)
    (row,) = [row for row in rows if (row["scope"], row["contender"]) == ("all", "es-s0")]
    assert (row["share"], row["best_bytes"]) == (0.25, 2800)


def test_what_is_missing_and_how_to_make_it(mlgo, tmp_path):
    run = mlgo("headroom", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"error: {tmp_path}/headroom/headroom.parquet is missing; make it with: make headroom\n"


def test_help_has_an_example(mlgo):
    assert "make headroom" in mlgo("headroom", "--help").stdout
