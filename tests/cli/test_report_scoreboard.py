"""`mlgo report scoreboard`: the table in the terminal, as JSON and as a page."""

import json

import pytest

from mlgo.core.config import load_config
from mlgo.core.files import read_json, write_json
from tests.conftest import REPOSITORY
from tests.experiments.test_scoreboard import write_run

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
    assert head[:3] == ["learner", "seeds", "evaluations"]
    costs, gains = (
        ["es", "0, 1", "305", "150", "2.0", "2"],
        ["+6.51 %", "-0.50 %", "+1.50 % (+1.00 to +2.00)"],
    )
    told = ["0.0 %", "1 / 1 / 0", "-", "no verdict: 2 projects, six are needed"]
    assert (es[:6], es[8:]) == (costs, [*gains, *told])
    assert es[6].startswith("+3.07 % (")  # 1 - (1.005 * 0.95 * 1.005 * 0.92) ** 0.25
    assert es[7].startswith("+3.00 % (")
    assert bc[:6] == ["bc", "0", "0", "0", "0.2", "1"]
    assert bc[8:11] == ["+1.00 %", "0.00 %", "+0.25 % (+0.25 to +0.25)"]


def test_json(mlgo, data):
    es, bc = json.loads(mlgo("report", "scoreboard", "--data", data, "--json").stdout)
    assert es["linked"] == pytest.approx([0.015, 0.01, 0.02])
    assert es["comparisons"]["all"]["items"] == {"smaller": 4, "equal": 0, "larger": 4}
    assert es["comparisons"]["c++"]["verdict"] == "no verdict"
    assert (es["learner"], es["seeds"], bc["learner"]) == ("es", [0, 1], "bc")


def test_page(mlgo, data, tmp_path):
    page = tmp_path / "results" / "scoreboard.md"
    run = mlgo("report", "scoreboard", "--data", data, "--markdown", page)
    assert (run.returncode, run.stderr) == (0, "")
    lines = page.read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")] == ["| learner", "| ---", "| es", "| bc"]
    assert {line.count("|") for line in lines if line.startswith("| ")} == {16}
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
