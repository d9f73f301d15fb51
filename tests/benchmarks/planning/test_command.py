"""Tables, page, picture; measuring on the sample corpus."""

import json
from xml.etree import ElementTree

import pytest

from benchmarks.planning.command import shape
from benchmarks.planning.generations import Shape
from mlgo.base.files import write_json
from tests.benchmarks.planning.measured import measured


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "measured.json"
    write_json(path, measured())
    return path


SMALL = ("--cores", "4", "40", "--generation", "6x5", "--generations", "2", "--trainings", "2", "--jobs", "1")


def test_json_page_and_picture(benchmark, record, tmp_path):
    files = {name: tmp_path / f"plan.{name}" for name in ("html", "svg", "md")}
    options = ("--output", files["html"], "--picture", files["svg"], "--markdown", files["md"])
    run = benchmark("planning", "--measured", record, *SMALL, *options, "--json")
    assert (run.returncode, run.stderr) == (0, "")
    kinds = json.loads(run.stdout)
    assert {name: len(rows) for name, rows in kinds.items()} == {"placings": 10, "nested": 8, "relieved": 6}
    for row in (row for rows in kinds.values() for row in rows):
        assert 0.0 < row["utilisation"] <= 1.0
        assert 0.0 < row["driver"] <= 1.0
    page = files["html"].read_text()
    assert page.count("<tr>") > 30
    assert "http://" not in page.split("</script>")[-1]
    assert ElementTree.parse(files["svg"]).getroot().tag.endswith("svg")
    assert files["md"].read_text().count("\n| 40 ") == 12
    again = benchmark("planning", "--measured", record, *SMALL, *options, "--json")
    assert again.stdout == run.stdout
    assert files["html"].read_text() == page


def test_table(benchmark, record, tmp_path):
    run = benchmark("planning", "--measured", record, *SMALL, "--output", tmp_path / "plan.html")
    assert run.returncode == 0
    assert run.stdout.splitlines()[1].split()[:6] == ["4", "6", "x", "5", "arrival", "order"]
    assert "2 trainings, shared" in run.stdout
    assert "8 drivers, messages of up to 1" in run.stdout


def test_what_is_missing_and_how_to_make_it(benchmark, tmp_path):
    run = benchmark("planning", "--data", tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        f"error: {tmp_path}/work/planning/measured.json is missing; run: python -m benchmarks.planning --measure, "
        "or name another: --measured FILE\n"
    )


def test_a_record_that_lacks_something(benchmark, tmp_path):
    record = measured()
    del record["workload"]["spread"]
    write_json(tmp_path / "measured.json", record)
    run = benchmark("planning", "--measured", tmp_path / "measured.json", *SMALL)
    assert run.returncode == 1
    assert (
        run.stderr
        == "error: the workload cannot be read ('spread'); measure it anew: python -m benchmarks.planning --measure\n"
    )


def test_sizes_of_generations(benchmark):
    assert shape("64x20") == Shape(64, 20)
    for wrong in ("64", "0x3", "ax2"):
        run = benchmark("planning", "--generation", wrong)
        assert run.returncode == 2
        assert "--generation" in run.stderr


def test_help_has_examples(benchmark):
    assert "python -m benchmarks.planning --measure" in benchmark("planning", "--help").stdout
