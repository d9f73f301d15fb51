"""`mlgo report sizes`: gains of small and of large modules in the terminal, as JSON and as a page."""

import json

import pytest

from tests.research.test_scoreboard import write_run


def test_table_and_page(mlgo, tmp_path):
    data, page = write_run(tmp_path / "data"), tmp_path / "page.md"
    run = mlgo("report", "sizes", "--data", data, "--markdown", page)
    assert (run.returncode, run.stderr) == (0, "")
    head, _, row, *_ = page.read_text().splitlines()
    assert head == "| bytes | modules | bc | es |"
    assert row.startswith("| up to 1,000 | 8 | +0.50 % (0.00 to +1.00) | +3.00 % (")  # 8 modules of 1,000 bytes
    assert run.stdout.splitlines()[1].split()[:4] == ["up", "to", "1,000", "8"]


def test_json(mlgo, tmp_path):
    bc, es = json.loads(mlgo("report", "sizes", "--data", write_run(tmp_path), "--json").stdout)
    assert (bc["learner"], bc["scope"], es["seeds"]) == ("bc", "up to 1,000", [0, 1])
    assert es["total"]["value"] == pytest.approx(0.03)


def test_nothing_there(mlgo, tmp_path):
    run = mlgo("report", "sizes", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert "results.parquet is missing" in run.stderr
