"""Numbers for DVC."""

import csv
import io
import json

import numpy as np
import pytest

from mlgo.compare.scores import ScoreMatrix, compare
from mlgo.report.metrics import headline_metrics, metrics, projects_csv, ratios_csv
from tests.compare.test_modules import BOOTSTRAP, project_rows, split_rows, table


@pytest.fixture
def measured(world) -> ScoreMatrix:
    return table(world)


def test_metrics_are_nested_numbers(measured):
    found = metrics(split_rows(measured, ["es-s0", "never"]))
    assert set(found) == {"test", "train"}
    assert set(found["test"]) == {"es-s0", "es-s0 c", "es-s0 c++", "never", "never c", "never c++"}
    numbers = found["test"]["es-s0"]
    assert numbers["text_geomean_gain_percent"] == pytest.approx(5.0, abs=0.1)
    assert numbers["text_geomean_low_percent"] <= numbers["text_geomean_gain_percent"]
    assert numbers["text_total_gain_percent"] <= numbers["text_total_high_percent"]
    assert (numbers["text_modules"], numbers["text_modules_smaller"], numbers["exec_failed"]) == (12, 12, 0)
    assert (numbers["text_projects"], numbers["text_projects_smaller"], numbers["text_num_tests"]) == (2, 2, 0)
    assert numbers["text_sign_p"] == numbers["text_p"] == 0.5
    texts = ("verdict", "finding", "worst_project")
    words = {name: numbers.pop(name) for name in list(numbers) if name.endswith(texts)}
    assert words["text_finding"] == "no verdict: 2 projects, six are needed"
    assert words["text_worst_project"] in ("drill", "easel")
    assert all(isinstance(value, int | float) for value in numbers.values())
    json.dumps(found, allow_nan=False)


def test_headline_metrics_are_over_all_seeds(world):
    """The second seed of es changes nothing; the interval is that over projects and seeds, no mean of two."""
    again = [{**row, "seed": 1, "text_bytes": row["baseline_text_bytes"]} for row in world.results]
    world.results += [row for row in again if row["policy"] == "es"]
    rows = split_rows(table(world), ["bc-s0", "es-s0", "es-s1"])
    found, single = headline_metrics(rows, "text_bytes")["test"], metrics(rows)["test"]
    assert set(found) == {f"{name}{part}" for name in ("bc", "es") for part in ("", " c", " c++")}
    assert found["es"]["gain_percent"] == single["es-mean"]["text_geomean_gain_percent"]
    assert (found["es"]["projects"], found["es"]["projects_smaller"]) == (2, 2)
    assert found["es"]["low_percent"] == 0.0
    assert found["es"]["high_percent"] == pytest.approx(single["es-s0"]["text_geomean_high_percent"], abs=1e-3)


def test_metrics_leave_unknown_intervals_out(measured):
    first = np.arange(len(measured.keys)) == 0
    rows = compare(measured.only(["bc-s0"]), lambda scores, split: [("all", first)], BOOTSTRAP, split="train")
    numbers = metrics(rows)["train"]["bc-s0"]
    assert "text_geomean_gain_percent" in numbers
    assert "text_geomean_low_percent" not in numbers


def test_projects_csv(measured):
    rows = list(csv.DictReader(io.StringIO(projects_csv(project_rows(measured, ["es-s0"]), "text_bytes"))))
    assert list(rows[0]) == ["policy", "split", "project", "gain_percent", "smaller", "equal", "larger"]
    assert [row["project"] for row in rows] == ["drill", "easel", "anvil", "bellows"]
    assert float(rows[0]["gain_percent"]) == pytest.approx(5.0, abs=0.1)
    assert [rows[0][name] for name in ("smaller", "equal", "larger")] == ["6", "0", "0"]


def test_ratios_csv(measured):
    rows = list(csv.DictReader(io.StringIO(ratios_csv(measured, "text_bytes"))))
    assert list(rows[0]) == ["policy", "split", "module", "ratio"]
    assert len(rows) == 2 * 24
    assert {row["policy"] for row in rows} == {"bc-s0", "es-s0"}
