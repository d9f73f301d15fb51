"""Planning from what a pipeline leaves behind."""

import json
import sys

import pytest

from benchmarks.planning.measure import HOW


@pytest.mark.slow
def test_measured_and_simulated(finished):
    few = ("--modules", "3", "--pairs", "2", "--real-generations", "2")
    planning = (sys.executable, "-m", "benchmarks.planning")
    run = finished.run(*planning, "--measure", "--preset", "config/presets/tiny.yaml", *few, "--json")
    assert run.returncode == 0, run.stderr
    record = json.loads(run.stdout)
    assert set(record["costs"]) == set(HOW)
    assert all(one["value"] >= 0.0 for one in record["costs"].values())
    for row, workers in zip(record["validation"], (1, 2), strict=True):
        assert (row["workers"], row["generations"], row["asked"]) == (workers, 2, 2 * 3 * 4)
        assert 0 < row["compiled"] <= row["asked"]
        # What was simulated is what took place: only what the model leaves out makes a difference.
        assert row["measured_s"] / 3 < row["replayed_s"] < row["measured_s"] * 1.5
    small = ("--cores", "4", "--generation", "8x4", "--generations", "2", "--trainings", "2")
    shown = finished.run(*planning, *small, "--json")
    assert shown.returncode == 0, shown.stderr
    assert len(json.loads(shown.stdout)["placings"]) == 5
    assert (finished.root / "data/work/planning/plan.html").stat().st_size > 1_000_000
