"""`mlgo report`: the overview, and which options its pages take."""

import json

import pytest

from mlgo.base.artifacts import HEADROOM, PROGRAMS, SCORES, write_rows
from mlgo.base.files import write_json
from mlgo.objects.measures import get_measure
from mlgo.report.headline_page import summarise
from tests.compare.test_programs import ROWS


def figures(kind, low, high, gain=2.5):
    ends = {f"{kind}_geomean_{name}_percent": value for name, value in (("gain", gain), ("low", low), ("high", high))}
    counts = {f"{kind}_projects_{name}": number for name, number in (("smaller", 6), ("larger", 1), ("equal", 2))}
    return {**ends, **counts, f"{kind}_finding": "smaller" if low and low > 0 else "no difference shown"}


@pytest.fixture
def data(tmp_path):
    """A finished run that was trained on executable sections, which gain; text does not. es has two seeds."""
    both = figures("text", -1.0, 3.0, 1.0) | figures("exec", 2.0, 3.0)
    test = {"es-s0": both, "es-s0 c++": both, "es-s1": both, "es-mean": both, "es-mean c++": both, "never": both}
    write_json(tmp_path / "report/comparisons.json", {"test": test})
    origin = {"compile": {"objective": "exec_bytes"}}
    write_rows(tmp_path / "baseline/scores.parquet", [], SCORES, origin)
    (tmp_path / "report/report.html").write_text("")
    return tmp_path


def test_the_overview_speaks_of_what_was_trained_for(prints, data):
    gain = (
        "smaller; executable sections: +2.50 % (+2.00 to +3.00 %) per project; projects: 6 smaller, 1 larger, 2 equal"
    )
    assert prints("report", "--data", data).splitlines() == [
        f"es-mean, test projects: {gain}",
        f"es-mean, their C++ modules: {gain}",
        f"report: {data}/report/report.html",
    ]


def test_the_overview_by_another_measure(mlgo, data):
    lines = mlgo("report", "--data", data, "--measure", "text_bytes").stdout.splitlines()
    assert lines[0].startswith("es-mean, test projects: no difference shown; text: +1.00 % (-1.00 to +3.00 %) per")
    assert json.loads(mlgo("report", "--data", data, "--json").stdout)["test"]["never"]["exec_projects_smaller"] == 6


def test_without_a_page_it_is_that_of_the_task(mlgo, data, tmp_path):
    (tmp_path / "jit.yaml").write_text("task: jit-cse\n")
    run = mlgo("report", "--data", data, "--preset", tmp_path / "jit.yaml")
    assert run.returncode == 1
    assert "cse/report/comparisons.json is missing" in run.stderr
    assert mlgo("report", "--data", data, "--preset", "config/presets/tiny.yaml").stdout.startswith("es-mean, test")


def test_a_gain_without_interval():
    told = "no difference shown; text: +2.50 % per project; projects: 6 smaller, 1 larger, 2 equal"
    assert summarise(figures("text", None, None), get_measure("text_bytes")) == told


@pytest.mark.parametrize(
    ("page", "option"),
    [
        ("overview", ("--split", "train")),
        ("scoreboard", ("--learner", "x")),
        ("headroom", ("--markdown", "x.md")),
        ("sweep", ("--measure", "text_bytes")),
        ("programs", ("--experiments",)),
        ("cse", ("--preset", "x.yaml")),
    ],
)
def test_an_option_that_a_page_does_not_take(refuses, data, page, option):
    error = refuses("report", page, *option, "--data", data)
    assert error == f"mlgo report {page} takes no {option[0]}; see mlgo report --help"


def test_programs(mlgo, prints, tmp_path):
    write_rows(tmp_path / "execution/programs.parquet", ROWS, PROGRAMS, {})
    text = prints("report", "programs", "--data", tmp_path, "--markdown", tmp_path / "page.md")
    # 5 / 10 and 1 / 1 with 1 added to costs; 100 and 100 bytes; 0.9 and 1; 0.9 and 0.8.
    assert "all      good               +29.29 %          0.00 %      +5.13 %             +15.15 %" in text
    assert "a        3           1.00" in text
    assert "| a | good | +50.00 % | 0.00 % | +10.00 % | +10.00 % |" in (tmp_path / "page.md").read_text()
    told = json.loads(mlgo("report", "programs", "--data", tmp_path, "--json").stdout)
    assert (told["wrong"], told["rank_correlations"][1]["contenders"]) == ([], 3)
    write_rows(tmp_path / "execution/programs.parquet", [*ROWS[:1], {**ROWS[1], "right": False}], PROGRAMS, {})
    run = mlgo("report", "programs", "--data", tmp_path)
    assert (run.returncode, run.stdout.splitlines()[-1]) == (1, "a under good: printed something else")


def test_a_measure_that_the_search_does_not_know(refuses, tmp_path):
    write_rows(tmp_path / "headroom/headroom.parquet", [], HEADROOM, {})
    error = refuses("report", "headroom", "--measure", "spill_cost", "--data", tmp_path)
    assert "knows nothing of spill_cost; name a size of objects" in error
