"""Every benchmark can be run by its name, and its help shows how."""

import pytest

from benchmarks.arguments import RELEASED
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

FOLDER = REPOSITORY / "benchmarks"
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if "def main(" in path.read_text())


def test_all_are_found():
    assert BENCHMARKS == [
        "autotuner",
        "capture",
        "cores",
        "counting",
        "coverage",
        "driver",
        "echo",
        "env",
        "exported",
        "fit",
        "host",
        "house",
        "labels",
        "nested",
        "profile_overlap",
        "profiles",
        "replay",
        "soak",
        "spill_search",
    ]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_has_examples(benchmark, name):
    run = benchmark(name, "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"usage: python -m benchmarks.{name} ")
    assert f"\n    python -m benchmarks.{name}" in run.stdout.partition("\nExample:\n")[2]
    assert "--json" in run.stdout


def test_a_new_clone_has_the_policy_that_benchmarks_take():
    assert load_policy(REPOSITORY / RELEASED).task == "inline-size"


def test_a_mistake_is_one_line(benchmark, tmp_path):
    run = benchmark("fit", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"error: {tmp_path}/baseline/trace.parquet ")
    assert run.stderr.count("\n") == 1
