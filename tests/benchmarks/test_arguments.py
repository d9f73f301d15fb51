"""Every benchmark can be run by its name, and its help shows how."""

import pytest

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "benchmarks"
BENCHMARKS = [*sorted(path.stem for path in FOLDER.glob("*.py") if "def main(" in path.read_text()), "planning"]


def test_all_are_found():
    assert BENCHMARKS == [
        "capture",
        "cores",
        "counting",
        "coverage",
        "driver",
        "echo",
        "env",
        "episodes",
        "exported",
        "fit",
        "host",
        "log",
        "nested",
        "pools",
        "replay",
        "save",
        "seen",
        "soak",
        "planning",
    ]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_has_examples(benchmark, name):
    run = benchmark(name, "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"usage: python -m benchmarks.{name} ")
    assert f"\nExample:\n    python -m benchmarks.{name}" in run.stdout
    assert "--json" in run.stdout


def test_a_mistake_is_one_line(benchmark, tmp_path):
    run = benchmark("log", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"error: {tmp_path}/baseline/trace.parquet ")
    assert run.stderr.count("\n") == 1
