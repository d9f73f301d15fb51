"""`mlgo report difference`: two runs in the terminal, as JSON and as a page."""

import json

import pytest

from tests.research.test_scoreboard import write_run


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path / name / "data") for name in ("one", "two")]


def test_table(mlgo, runs):
    run = mlgo("report", "difference", "--data", runs[0], "--against", runs[1])
    assert (run.returncode, run.stderr) == (0, "")
    first, _, head, ships, *_ = run.stdout.splitlines()
    assert first == f"First: es of {runs[0]}. Second: es of {runs[1]}. Seeds 0, 1."
    assert head.split() == ["first", "second", "difference", "first", "is", "ahead", "of"]
    assert [cell.strip() for cell in ships.split("  ") if cell] == [
        "what ships, in total",
        *["+1.38 %", "+1.38 %", "0.00 % (0.00 to 0.00)", "in 0 of 2 seeds", "2 programs of 2 projects"],
    ]


def test_json_and_page(mlgo, runs, tmp_path):
    page = tmp_path / "page.md"
    command = ("report", "difference", "--data", runs[0], "--against", runs[1], "--learner", "bc")
    found = json.loads(mlgo(*command, "--json", "--markdown", page).stdout)
    line = found["lines"][0]
    assert (line["asked"], line["ahead"], line["seeds"]) == ("what ships, in total", 0, [0])
    assert "| what ships, in total | +0.28 % | +0.28 % |" in page.read_text()


def test_the_other_run_has_to_be_named(mlgo, runs):
    run = mlgo("report", "difference", "--data", runs[0])
    assert (run.returncode, run.stdout) == (1, "")
    assert "mlgo report difference needs --against DIR" in run.stderr
    run = mlgo("report", "truth", "--data", runs[0], "--against", runs[1])
    assert "mlgo report truth takes no --against" in run.stderr
