"""`mlgo report cse`: the table of chosen eliminations."""

import json

import pytest

from mlgo.base.files import write_json
from mlgo.compare.units import unit_rows
from mlgo.report.choices import choice_comparisons
from tests.compare.test_units import BOOTSTRAP, read, write_run


@pytest.fixture
def data(tmp_path):
    """A folder of results of task jit-cse."""
    units = read(write_run(tmp_path / "run"))
    comparisons = choice_comparisons(units, unit_rows(units, BOOTSTRAP))
    write_json(tmp_path / "cse/report/comparisons.json", comparisons)
    return tmp_path


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell]


def test_table(mlgo, data):
    run = mlgo("report", "cse", "--data", data)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[0] == "Task jit-cse, test units. Score: PerfScore, lower is better."
    assert lines[2] == "Of 4 test units 4 have a best known choice, 2 of them by trying all."
    rows = {found[0]: found for found in map(cells, lines[4:])}
    assert list(rows) == ["who chose", "heuristic", "none", "best known", "es-s0", "es-s1", "es-mean", "bc-s0"]
    one = rows["es-s0"]
    assert one[1:3] == ["4", "0"]
    assert one[3].startswith("0.8409 (")
    assert one[4:6] == ["0.7071", "0.7738"]  # median of 1/2, 1/2, 1 and 2; 158.25 / 204.5
    assert one[6:11] == ["no verdict: 4 projects, six are needed", "-", "2 / 1", "2 / 1 / 1", "0.00 %"]
    assert one[11].startswith("1.0241 (")
    assert one[12:] == ["+88.52 %", "1.00", "158", "0.5000", "2 / 0 / 2"]
    assert rows["es-s1"][1:3] == ["3", "1 (timeout 1)"]


def test_validation_has_no_label(mlgo, data):
    lines = mlgo("report", "cse", "--data", data, "--split", "validation").stdout.splitlines()
    (best,) = [cells(line) for line in lines if line.startswith("best known")]
    assert best[1:12] == ["0", "1 (no_label 1)", "-", "-", "-", "-", "0 / 0", "0 / 0 / 0", "-", "-", "-"]


def test_json(mlgo, data):
    found = json.loads(mlgo("report", "cse", "--data", data, "--json").stdout)
    assert found["contenders"]["es-s1"]["failures"] == {"OK": 3, "timeout": 1}


def test_what_is_missing(mlgo, tmp_path):
    run = mlgo("report", "cse", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"error: {tmp_path}/cse/report/comparisons.json is missing; ")


def test_a_split_without_units(mlgo, data):
    run = mlgo("report", "cse", "--data", data, "--split", "train")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.endswith("holds no train unit; it has test, validation\n")
