"""`mlgo report generalisation`: the tables in the terminal, as JSON and as a page."""

import json

import pytest

from tests.research.test_generalisation import NEW, OLD, write_run


@pytest.fixture
def data(tmp_path):
    write_run(tmp_path / "data" / "generalisation")
    return tmp_path / "data"


def test_tables(mlgo, data):
    run = mlgo("report", "generalisation", "--data", data)
    assert (run.returncode, run.stderr) == (0, "")
    tables = run.stdout.split("\n\n")
    assert [table.splitlines()[0] for table in tables][:3] == [
        f"Languages, {NEW}",
        f"Projects, {NEW}",
        "Compilers, all modules",
    ]
    head, *lines = [[cell.strip() for cell in line.split("  ") if cell] for line in tables[2].splitlines()[1:]]
    tests = ["sign test p", "corrected p", "verdict"]
    gains = ["gain (interval)", "in total"]
    assert head == ["trained", "tested", *gains, "projects smaller / larger / equal", "modules", *tests]
    assert [line[:2] for line in lines] == [[NEW, NEW], [NEW, OLD], [OLD, NEW], [OLD, OLD]]
    told = ["7", "0.016", "0.062", "no difference shown"]
    assert lines[1][2:] == [*["-25.00 % (-25.00 to -25.00)"] * 2, "0 / 7 / 0", *told]
    assert lines[3][2:] == [*["+30.00 % (+30.00 to +30.00)"] * 2, "7 / 0 / 0", *told]
    assert "+30.00 %  " in tables[3].splitlines()[-1]  # a single project has no interval


def test_json(mlgo, data):
    languages, *_ = json.loads(mlgo("report", "generalisation", "--data", data, "--json").stdout)
    assert languages["title"] == f"Languages, {NEW}"
    found = languages["cells"][5]
    assert (found["contender"], found["scope"], found["seeds"]) == ("c", "c", [0, 1])
    assert found["geomean"]["value"] == pytest.approx(0.1)
    assert (found["sign_p"], found["p"], found["num_tests"]) == (pytest.approx(2 / 2**6), 2 / 2**6, 4)
    assert (found["corrected_p"], found["verdict"]) == (3 * 2 / 2**6, "no difference shown")


def test_page(mlgo, data, tmp_path):
    page = tmp_path / "results" / "generalisation.md"
    run = mlgo("report", "generalisation", "--data", data, "--markdown", page)
    assert (run.returncode, run.stderr) == (0, "")
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        f"## Languages, {NEW}",
        f"## Projects, {NEW}",
        "## Compilers, all modules",
        "## Compilers, C++",
        "## Compilers, C",
        "## Trainings",
    ]
    assert f"| {OLD} | +20.00 % (+20.00 to +20.00)<br>7 : 0 of 7, no difference shown, p = 0.062 | " in page.read_text()
    assert lines[-1] == f"| {OLD} | both | c, c++ | 0, 1 | 104 |"


def test_nothing_there(mlgo, tmp_path):
    run = mlgo("report", "generalisation", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"error: {tmp_path}/generalisation/results.parquet is missing; make it with: make")
