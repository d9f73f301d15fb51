"""Numbers for DVC."""

import csv
import dataclasses
import io
import json

import numpy as np
import pytest

from mlgo.experiments.measured import Contender, Measured, Place, compare_all
from mlgo.report.metrics import headline_metrics, metrics, projects_csv, ratios_csv
from tests.experiments.test_evaluation import BOOTSTRAP, project_rows, split_rows, table


@pytest.fixture
def measured(world) -> Measured:
    return table(world)


def test_metrics_are_nested_numbers(measured):
    found = metrics(split_rows(measured, ["es-s0", "never"]), [])
    assert set(found) == {"test", "train"}
    assert set(found["test"]) == {"es-s0", "es-s0 c", "es-s0 c++", "never", "never c", "never c++"}
    numbers = found["test"]["es-s0"]
    assert numbers["text_geomean_gain_percent"] == pytest.approx(5.0, abs=0.1)
    assert numbers["text_geomean_low_percent"] <= numbers["text_geomean_gain_percent"]
    assert numbers["text_total_gain_percent"] <= numbers["text_total_high_percent"]
    assert (numbers["text_modules"], numbers["text_wins"], numbers["exec_failed"]) == (12, 12, 0)
    assert numbers.pop("text_verdict") == "smaller"
    for verdict in ("exec_verdict", "dedup_verdict"):
        assert numbers.pop(verdict) in ("smaller", "larger", "no difference shown")
    assert all(isinstance(value, int | float) for value in numbers.values())
    json.dumps(found, allow_nan=False)


def test_headline_metrics_average_over_seeds(measured):
    rows = split_rows(measured, ["bc-s0", "es-s0"])
    rows_of_es = [row for row in rows if row.name == "es-s0"]
    both = [
        *rows_of_es,
        *(dataclasses.replace(row, contender=Contender.policy("es", 1)) for row in rows if row.name == "bc-s0"),
    ]
    found = headline_metrics(both, "text_bytes", [])["test"]
    single = metrics(rows, [])["test"]
    expected = [single[name]["text_geomean_gain_percent"] for name in ("es-s0", "bc-s0")]
    assert found["es"]["gain_percent"] == pytest.approx(sum(expected) / 2, abs=1e-3)
    assert set(found) == {"es", "es c", "es c++"}


def test_metrics_leave_unknown_intervals_out(measured):
    place = Place("train", "all", np.arange(len(measured.keys)) == 0)
    numbers = metrics(compare_all(measured.only(["bc-s0"]), [place], BOOTSTRAP), [])["train"]["bc-s0"]
    assert "text_geomean_gain_percent" in numbers
    assert "text_geomean_low_percent" not in numbers


def test_projects_csv(measured):
    rows = list(csv.DictReader(io.StringIO(projects_csv(project_rows(measured, ["es-s0"]), "text_bytes"))))
    assert list(rows[0]) == ["policy", "split", "project", "gain_percent", "low", "high"]
    assert [row["project"] for row in rows] == ["drill", "easel", "anvil", "bellows"]
    assert float(rows[0]["low"]) <= float(rows[0]["gain_percent"]) <= float(rows[0]["high"])


def test_ratios_csv(measured):
    rows = list(csv.DictReader(io.StringIO(ratios_csv(measured, "text_bytes"))))
    assert list(rows[0]) == ["policy", "split", "module", "ratio"]
    assert len(rows) == 2 * 24
    assert {row["policy"] for row in rows} == {"bc-s0", "es-s0"}
