"""`mlgo report scoreboard`: the table in the terminal, as JSON and as a page."""

import json

import pytest

from mlgo.base.config import load_config
from mlgo.base.files import read_json, write_json
from tests.conftest import REPOSITORY
from tests.research.test_scoreboard import write_run

PRESET = "config/presets/scoreboard.yaml"


@pytest.fixture
def data(tmp_path):
    """A finished run whose policies say that they were trained with the preset."""
    data = write_run(tmp_path / "data")
    config = load_config(REPOSITORY / "config/config.yaml", REPOSITORY / PRESET)
    for policy, section in (("bc-s0", {"bc": config.bc}), ("es-s0", {"es": config.es}), ("es-s1", {"es": config.es})):
        provenance = {name: one.model_dump() for name, one in section.items()}
        write_json(data / "policies" / policy / "policy.json", {"provenance": provenance})
    return data


def test_table(mlgo, data):
    run = mlgo("report", "scoreboard", "--data", data)
    assert (run.returncode, run.stderr) == (0, "")
    head, es, bc = [[cell.strip() for cell in line.split("  ") if cell] for line in run.stdout.splitlines()]
    assert head[:4] == ["learner", "seeds", "weights", "evaluations"]
    ships = "+1.38 % (+0.92 to +1.83)"  # 165 of 12,000 bytes; the projects are alike
    told = ["2 / 0 / 0", "0.0 %", "-", "no verdict: 2 projects, six are needed"]
    assert es[:11] == ["es", "0, 1", "5", "305", "150", "2.0", "2", ships, ships, *told[:2]]
    assert es[11:13] == told[2:]
    assert es[13].startswith("+3.07 % (")  # 1 - (1.005 * 0.95 * 1.005 * 0.92) ** 0.25
    assert es[14].startswith("+3.00 % (")
    assert es[15:] == ["+6.51 %", "-0.50 %"]
    assert bc[:8] == ["bc", "0", "3", "0", "0", "0.2", "1", "+0.28 % (+0.28 to +0.28)"]
    assert bc[15:] == ["+1.00 %", "0.00 %"]


def test_json(mlgo, data):
    es, bc = json.loads(mlgo("report", "scoreboard", "--data", data, "--json").stdout)
    assert es["ships"]["total"]["value"] == pytest.approx(165 / 12_000)
    assert es["comparisons"]["all"]["items"] == {"smaller": 4, "equal": 0, "larger": 4}
    assert es["comparisons"]["c++"]["verdict"] == "no verdict"
    assert (es["learner"], es["seeds"], bc["learner"]) == ("es", [0, 1], "bc")


def test_page(mlgo, data, tmp_path):
    page = tmp_path / "results" / "scoreboard.md"
    run = mlgo("report", "scoreboard", "--data", data, "--markdown", page)
    assert (run.returncode, run.stderr) == (0, "")
    lines = page.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows] == [
        *("| learner", "| ---", "| es", "| bc"),
        *("| learner", "| ---", "| es"),
        *("| bytes", "| ---", "| up to 1,000"),
    ]
    assert {row.count("|") for row in rows[:4]} == {18}
    assert rows[4] == "| learner | seeds | 100 compiles | 300 compiles |"
    assert rows[6] == "| es | 2 | +0.00 % (+0.00 to +0.00) | +0.50 % (+0.00 to +1.00) |"  # 300 and 310 compiles
    es = "data/policies/es-s0/weights.npy data/policies/es-s1/weights.npy"
    assert [line.strip() for line in lines if line.startswith("    ")] == [
        f"snakemake --cores 2 {es} --configfile {PRESET}",
        f"snakemake --cores 1 data/policies/bc-s0/weights.npy --configfile {PRESET}",
    ]
    assert "≥" not in page.read_text()


def test_no_page_with_commands_that_would_train_something_else(mlgo, data, tmp_path):
    path = data / "policies/es-s1/policy.json"
    record = read_json(path)
    record["provenance"]["es"]["generations"] = 13
    write_json(path, record)
    page = tmp_path / "scoreboard.md"
    run = mlgo("report", "scoreboard", "--data", data, "--markdown", page)
    assert (run.returncode, run.stdout) == (1, "")
    assert "es-s1 was trained with other settings of es than config/presets/scoreboard.yaml has" in run.stderr
    assert not page.exists()


def test_nothing_there(mlgo, tmp_path):
    run = mlgo("report", "scoreboard", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"error: {tmp_path}/evaluation/results.parquet is missing; make it with: make scoreboard\n"
