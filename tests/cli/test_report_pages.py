"""`mlgo report`: each page in the terminal, as JSON and as Markdown."""

import json
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlgo.base.artifacts import HEADROOM, RESULTS, SHIPPED_SIZES, write_rows, write_table
from mlgo.base.config import load_config, merge
from mlgo.base.files import read_record, write_record, write_text
from mlgo.compare.units import unit_rows
from mlgo.learn.cost import TrainingCost, recorded_cost
from mlgo.report.choices import choice_comparisons
from tests.compare.conftest import shipped_rows
from tests.compare.test_headroom import result_rows, search_rows
from tests.compare.test_units import BOOTSTRAP, read
from tests.compare.test_units import write_run as write_cse
from tests.conftest import REPOSITORY, WITHIN_S
from tests.fakes.policies import write_policy
from tests.research.test_generalisation import NEW, OLD
from tests.research.test_generalisation import write_run as write_generalisation
from tests.research.test_scoreboard import write_run


@pytest.fixture
def report(prints):
    """A page that is shown."""
    return partial(prints, "report")


@pytest.fixture
def as_json(report):
    """The same as JSON."""

    def show(*arguments):
        return json.loads(report(*arguments, "--json"))

    return show


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("budgets", "holds no training that compiles"),
        ("budgets", "run: snakemake"),
        ("cse", "error: {folder}/cse/report/comparisons.json is missing; "),
        ("generalisation", "error: {folder}/generalisation/results.parquet is missing; make it with: make"),
        ("headroom", "error: {folder}/headroom/headroom.parquet is missing; make it with: make headroom\n"),
        ("scoreboard", "error: {folder}/evaluation/results.parquet is missing; make it with: make scoreboard\n"),
        ("sizes", "results.parquet is missing"),
    ],
)
def test_nothing_there(refuses, tmp_path, page, message):
    assert message.format(folder=tmp_path) in f"error: {refuses('report', page, '--data', tmp_path)}\n"


HISTORIES = {
    "es-s0": "generation,evaluations,validation_reward\n0,100,0.0\n1,1000,0.03\n",
    "es-s1": "generation,evaluations,validation_reward\n0,100,0.0\n1,1000,0.01\n",
    "es-long-s0": "generation,evaluations,validation_reward\n0,100,0.0\n1,10000,0.05\n",
    "bc-s0": "epoch,loss\n0,0.5\n",
}


@pytest.fixture
def histories(tmp_path):
    for name, history in HISTORIES.items():
        folder = tmp_path / "policies" / name
        folder.mkdir(parents=True)
        (folder / "history.csv").write_text(history)
    return tmp_path


def test_budgets_table_and_page(report, histories):
    page = histories / "page.md"
    text = report("budgets", "--data", histories, "--markdown", page)
    head, _, short, long, *_ = page.read_text().splitlines()
    assert (
        head == "| learner | seeds | 100 compiles | 300 compiles | 1,000 compiles | 3,000 compiles | 10,000 compiles |"
    )
    assert short == "| es | 2 | +0.00 % (+0.00 to +0.00) | +0.00 % (+0.00 to +0.00) | +2.00 % (+1.00 to +3.00) |  |  |"
    assert long.endswith("| +0.00 % (+0.00 to +0.00) | +5.00 % (+5.00 to +5.00) |")
    assert "+2.00 % (+1.00 to +3.00)" in text


def test_budgets_page_for_a_browser(report, histories):
    with recorded_cost(histories / "work", "es-s0", TrainingCost("run", workers=1, seconds=60.0)):
        pass
    page = histories / "budgets.html"
    text = report("budgets", "--data", histories, "--html", page)
    assert "3 minutes" not in text  # one minute does not say what three would have found
    assert [f'id="figure-gain-against-{what}"' in page.read_text() for what in ("evaluations", "minutes")] == [True] * 2


def test_budgets_json_by_budget(as_json, histories):
    short, long = as_json("budgets", "--data", histories)
    assert (long["learner"], short["learner"], short["seeds"]) == ("es-long", "es", [0, 1])
    assert short["gains"]["1000"] == [0.03, 0.01]
    assert short["gains"]["3000"] is None  # 1,000 compiles do not tell what 3,000 would have found
    assert long["gains"]["10000"] == [0.05]


def keep_results(*args):
    command = [sys.executable, "scripts/keep_results.py", *args]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=WITHIN_S)


def test_histories_that_are_kept_tell_the_same(as_json, tmp_path):
    data, kept = write_run(tmp_path / "data"), tmp_path / "kept"
    write_text(kept / "policies/gone-s0/history.csv", HISTORIES["es-s0"])  # of an earlier run
    keep_results("--data", data, "--output", kept)
    first, second = (as_json("budgets", "--data", one) for one in (data, kept))
    assert first == second
    assert (kept / "evaluation/results.parquet").exists()


def of_seeds(run, seeds, scores="a"):
    """What a machine has that trained some of the seeds alone."""
    for name, column in (("results", "seed"), ("shipped", "contender")):
        path = run / f"evaluation/{name}.parquet"
        table = pq.read_table(path)
        others = ["es-s0", "es-s1"] if column == "contender" else [0, 1]
        wanted = [f"es-s{seed}" for seed in seeds] if column == "contender" else seeds
        rows = [row for row in table.to_pylist() if row[column] in wanted or row[column] not in others]
        write_table(path, pa.Table.from_pylist(rows, table.schema), table.schema, {"scores_sha256": scores})
    for seed in {0, 1} - set(seeds):
        shutil.rmtree(run / f"policies/es-s{seed}")
    return run


def test_runs_of_several_machines_are_kept_as_one(as_json, tmp_path):
    one, two, whole = (write_run(tmp_path / name) for name in ("one", "two", "whole"))
    kept = tmp_path / "kept"
    assert keep_results("--data", of_seeds(one, [0]), "--output", kept).returncode == 0
    assert keep_results("--data", kept, of_seeds(two, [1]), "--output", kept).returncode == 0
    for report in ("budgets", "sizes"):
        assert as_json(report, "--data", kept) == as_json(report, "--data", whole)
    other = of_seeds(write_run(tmp_path / "other"), [1], scores="b")
    refused = keep_results("--data", kept, other, "--output", kept)
    assert refused.returncode == 1
    assert "measured different corpora or compilers" in refused.stderr


@pytest.fixture
def choices(tmp_path):
    """A folder of results of task jit-cse."""
    units = read(write_cse(tmp_path / "run"))
    comparisons = choice_comparisons(units, unit_rows(units, BOOTSTRAP))
    write_record(tmp_path / "cse/report/comparisons.json", comparisons)
    return tmp_path


def test_cse_table(report, choices):
    lines = report("cse", "--data", choices).splitlines()
    assert lines[0] == "Task jit-cse, test units. Score: PerfScore, lower is better."
    assert lines[2] == "Of 4 test units 4 have a best known choice, 2 of them by trying all."
    rows = {found[0]: found for found in map(cells, lines[4:])}
    assert list(rows) == ["who chose", "heuristic", "none", "best known", "es-s0", "es-s1", "es-mean", "bc-s0"]
    one = rows["es-s0"]
    assert one[1:3] == ["4", "0"]
    assert one[3].startswith("0.8409 (")
    assert one[4:6] == ["0.7071", "0.7738"]  # median of 1/2, 1/2, 1 and 2; 158.25 / 204.5
    assert one[6:11] == ["no verdict: 4 projects, six are needed", "-", "2 / 1", "2 / 1 / 1", "0.00 %"]
    assert one[11].startswith("1.0241 (")
    assert one[12:] == ["+88.52 %", "1.00", "158", "0.5000", "2 / 0 / 2"]
    assert rows["es-s1"][1:3] == ["3", "1 (timeout 1)"]


def test_cse_validation_has_no_label(report, choices):
    lines = report("cse", "--data", choices, "--split", "validation").splitlines()
    (best,) = [cells(line) for line in lines if line.startswith("best known")]
    assert best[1:12] == ["0", "1 (no_label 1)", "-", "-", "-", "-", "0 / 0", "0 / 0 / 0", "-", "-", "-"]


def test_cse_json(as_json, choices):
    found = as_json("cse", "--data", choices)
    assert found["contenders"]["es-s1"]["failures"] == {"OK": 3, "timeout": 1}


def test_a_split_without_units(refuses, choices):
    error = refuses("report", "cse", "--data", choices, "--split", "train")
    assert error.endswith("holds no train unit; it has test, validation")


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path / name / "data") for name in ("one", "two")]


def test_difference_table(report, runs):
    first, _, head, ships, *_ = report("difference", "--data", runs[0], "--against", runs[1]).splitlines()
    assert first == f"First: es of {runs[0]}. Second: es of {runs[1]}. Seeds 0, 1."
    assert head.split() == ["first", "second", "difference", "first", "is", "ahead", "of"]
    assert cells(ships) == [
        "what ships, in total",
        *["+1.38 %", "+1.38 %", "0.00 % (0.00 to 0.00)", "in 0 of 2 seeds", "2 programs of 2 projects"],
    ]


def test_difference_json_and_page(as_json, runs, tmp_path):
    page = tmp_path / "page.md"
    command = ("difference", "--data", runs[0], "--against", runs[1], "--learner", "bc")
    found = as_json(*command, "--markdown", page)
    line = found["lines"][0]
    assert (line["asked"], line["ahead"], line["seeds"]) == ("what ships, in total", 0, [0])
    assert "| what ships, in total | +0.28 % | +0.28 % |" in page.read_text()


def test_the_other_run_has_to_be_named(refuses, runs):
    assert "mlgo report difference needs --against DIR" in refuses("report", "difference", "--data", runs[0])
    error = refuses("report", "truth", "--data", runs[0], "--against", runs[1])
    assert "mlgo report truth takes no --against" in error


@pytest.fixture
def generalisation(tmp_path):
    write_generalisation(tmp_path / "data" / "generalisation")
    return tmp_path / "data"


def test_generalisation_tables(report, generalisation):
    tables = report("generalisation", "--data", generalisation).split("\n\n")
    assert [table.splitlines()[0] for table in tables][:3] == [
        f"Languages, {NEW}",
        f"Projects, {NEW}",
        "Compilers, all modules",
    ]
    head, *lines = [cells(line) for line in tables[2].splitlines()[1:]]
    tests = ["sign test p", "corrected p", "verdict"]
    gains = ["gain (interval)", "in total"]
    assert head == ["trained", "tested", *gains, "projects smaller / larger / equal", "modules", *tests]
    assert [line[:2] for line in lines] == [[NEW, NEW], [NEW, OLD], [OLD, NEW], [OLD, OLD]]
    told = ["7", "0.016", "0.062", "no difference shown"]
    assert lines[1][2:] == [*["-25.00 % (-25.00 to -25.00)"] * 2, "0 / 7 / 0", *told]
    assert lines[3][2:] == [*["+30.00 % (+30.00 to +30.00)"] * 2, "7 / 0 / 0", *told]
    assert "+30.00 %  " in tables[3].splitlines()[-1]  # a single project has no interval


def test_generalisation_json(as_json, generalisation):
    languages, *_ = as_json("generalisation", "--data", generalisation)
    assert languages["title"] == f"Languages, {NEW}"
    found = languages["cells"][5]
    assert (found["contender"], found["scope"], found["seeds"]) == ("c", "c", [0, 1])
    assert found["geomean"]["value"] == pytest.approx(0.1)
    assert (found["sign_p"], found["p"], found["num_tests"]) == (pytest.approx(2 / 2**6), 2 / 2**6, 4)
    assert (found["corrected_p"], found["verdict"]) == (3 * 2 / 2**6, "no difference shown")


def test_generalisation_page(report, generalisation, tmp_path):
    page = tmp_path / "results" / "generalisation.md"
    report("generalisation", "--data", generalisation, "--markdown", page)
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        f"## Languages, {NEW}",
        f"## Projects, {NEW}",
        "## Compilers, all modules",
        "## Compilers, C++",
        "## Compilers, C",
        "## Trainings",
    ]
    assert f"| {OLD} | +20.00 % (+20.00 to +20.00)<br>7 : 0 of 7, no difference shown, p = 0.062 | " in page.read_text()
    assert lines[-1] == f"| {OLD} | both | c, c++ | 0, 1 | 104 |"


SEARCHED = {"heuristic": 1_000, "es-s0": 900, "search": 800}
"""Text of a linked file, whose unwind tables change alike."""


@pytest.fixture
def searched(tmp_path):
    """A folder of results."""
    write_rows(tmp_path / "headroom" / "headroom.parquet", search_rows(), HEADROOM, {})
    write_rows(tmp_path / "evaluation" / "results.parquet", result_rows(1000, 1750, 500), RESULTS, {})
    return tmp_path


def test_headroom_table(report, searched):
    lines = report("headroom", "--data", searched).splitlines()
    policy, best = (cells(line) for line in lines[7:9])
    gains = ["+4.41 % (-25.00 to +8.33)", "-7.04 % (-25.00 to +8.33)"]  # of p 250 of 3,000; of q -100 of 400
    assert policy == ["es-s0", "3", "3,400", "3,250", *gains, "no verdict: 2 projects, six are needed", "+25.00 %"]
    assert best == ["best known", "3", "3,400", "2,800", "+17.65 % (0.00 to +20.00)", "+10.56 % (0.00 to +20.00)", "-"]
    assert [lines[i - 1] for i, line in enumerate(lines) if "modules " in line] == ["All modules", "C", "C++", "p", "q"]


def test_headroom_json(as_json, searched):
    rows = as_json("headroom", "--data", searched, "--measure", "exec_bytes")
    (row,) = [row for row in rows if (row["scope"], row["contender"]) == ("all", "es-s0")]
    assert (row["total_share"], row["best_sum"], row["measure"]) == (0.25, 2800, "exec_bytes")


def test_help_has_an_example(report):
    assert "of: make headroom" in report("--help")


def test_headroom_of_linked_files_that_an_evaluation_searched(report, as_json, tmp_path):
    rows = [shipped_rows("a", "one", name, text) for name, text in SEARCHED.items()]
    write_rows(tmp_path / "evaluation/shipped.parquet", [row for some in rows for row in some], SHIPPED_SIZES, {})
    line = cells(report("headroom", "--data", tmp_path).splitlines()[3])
    assert line == ["es-s0", "all", "1", "2,100", "+5.24 %", "+10.48 %", "+50.00 %"]  # 110 and 220 of 2,100 bytes
    (row, *_) = as_json("headroom", "--data", tmp_path)
    assert row["contender"] == "es-s0"


PRESET = "config/presets/scoreboard.yaml"


@pytest.fixture
def scoreboard(tmp_path):
    """A finished run whose policies say that they were trained with the preset."""
    data = write_run(tmp_path / "data")
    config = load_config(REPOSITORY / "config/config.yaml", REPOSITORY / PRESET)
    languages = {"languages": list(config.train.languages)}
    order = {**languages, "min_questions": config.train.min_questions, "draw": config.train.draw}
    bc, es = {"bc": config.bc.model_dump(), **languages}, {"es": config.es.model_dump(), **order}
    for policy, provenance in (("bc-s0", bc), ("es-s0", es), ("es-s1", es)):
        write_policy(data / "policies" / policy, provenance, "ab" if policy == "bc-s0" else "abcd")
    return data


def test_scoreboard_table(report, scoreboard):
    head, es, bc = map(cells, report("scoreboard", "--data", scoreboard).splitlines())
    assert head[:4] == ["learner", "seeds", "weights", "evaluations"]
    ships = "+1.38 % (+0.92 to +1.83)"  # 165 of 12,000 bytes; the projects are alike
    folded = "+1.39 % (+0.93 to +1.85)"  # the same of 11,890
    told = ["2 / 0 / 0", "0.0 %", "-", "no verdict: 2 projects, six are needed"]
    assert es[:7] == ["es", "0, 1", "5", "305", "150", "2.0", "2"]
    assert es[7:15] == [ships, ships, folded, folded, *told]
    assert es[15].startswith("+3.07 % (")  # 1 - (1.005 * 0.95 * 1.005 * 0.92) ** 0.25
    assert es[16].startswith("+3.00 % (")
    assert es[17:] == ["+6.51 %", "-0.50 %"]
    assert bc[:8] == ["bc", "0", "3", "0", "0", "0.2", "1", "+0.28 % (+0.28 to +0.28)"]
    assert bc[17:] == ["+1.00 %", "0.00 %"]


def test_scoreboard_json(as_json, scoreboard):
    es, bc = as_json("scoreboard", "--data", scoreboard)
    assert es["ships"]["total"]["value"] == pytest.approx(165 / 12_000)
    assert es["comparisons"]["all"]["items"] == {"smaller": 4, "equal": 0, "larger": 4}
    assert es["comparisons"]["c++"]["verdict"] == "no verdict"
    assert (es["learner"], es["seeds"], bc["learner"]) == ("es", [0, 1], "bc")


def test_scoreboard_page(report, scoreboard, tmp_path):
    page = tmp_path / "results" / "scoreboard.md"
    report("scoreboard", "--data", scoreboard, "--markdown", page)
    lines = page.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows] == [
        *("| learner", "| ---", "| es", "| bc"),
        *("| learners", "| ---", "| es - bc"),
        *("| learner", "| ---", "| es"),
        *("| bytes", "| ---", "| up to 1,000"),
    ]
    assert {row.count("|") for row in rows[:4]} == {20}
    more = "+0.64 % (+0.64 to +0.64)"  # 110 and 33 of 12,000 bytes under the seed that both have
    assert rows[6] == f"| es - bc | {more} | {more} | 1 of 1 |"
    assert rows[7] == "| learner | seeds | 100 compiles | 300 compiles | 3 minutes |"
    none = "+0.00 % (+0.00 to +0.00)"  # 300 and 310 compiles took 3.3 and 4.7 minutes of one core
    assert rows[9] == f"| es | 2 | {none} | +1.00 % (+1.00 to +1.00) | {none} |"
    es = "data/policies/es-s0/weights.npy data/policies/es-s1/weights.npy"
    assert [line.strip() for line in lines if line.startswith("    ")] == [
        f"snakemake --cores 2 {es} --configfile {PRESET}",
        f"snakemake --cores 1 data/policies/bc-s0/weights.npy --configfile {PRESET}",
    ]
    assert "≥" not in page.read_text()


def test_the_same_page_from_kept_results(report, scoreboard, tmp_path):
    def page(data):
        report("scoreboard", "--data", data, "--markdown", tmp_path / "page.md")
        return (tmp_path / "page.md").read_text()

    np.save(scoreboard / "policies/bc-s0/weights.npy", np.zeros(80_000, np.float32))  # too large to be kept
    keep_results("--data", scoreboard, "--output", tmp_path / "kept")
    whole, kept = page(scoreboard), page(tmp_path / "kept")
    assert whole.replace("| bc | 0 | 80,000 |", "| bc | 0 | - |") == kept != whole


@pytest.mark.parametrize(
    "other", [{"es": {"generations": 13}}, {"languages": ["c"]}, {"min_questions": 7}, {"draw": "modules"}]
)
def test_no_page_with_commands_that_would_train_something_else(refuses, scoreboard, tmp_path, other):
    for path in scoreboard.glob("policies/es-s*/policy.json"):
        record = read_record(path)
        record["provenance"] = merge(record["provenance"], other)
        write_record(path, record)
    page = tmp_path / "scoreboard.md"
    error = refuses("report", "scoreboard", "--data", scoreboard, "--markdown", page)
    assert "es-s0 was trained with other settings of es than config/presets/scoreboard.yaml has" in error
    assert not page.exists()


def test_sizes_table_and_page(report, tmp_path):
    data, page = write_run(tmp_path / "data"), tmp_path / "page.md"
    text = report("sizes", "--data", data, "--markdown", page)
    head, _, row, *_ = page.read_text().splitlines()
    assert head == "| bytes | modules | bc | es |"
    assert row.startswith("| up to 1,000 | 8 | +0.50 % (0.00 to +1.00) | +3.00 % (")  # 8 modules of 1,000 bytes
    assert text.splitlines()[1].split()[:4] == ["up", "to", "1,000", "8"]


def test_sizes_json(as_json, tmp_path):
    bc, es = as_json("sizes", "--data", write_run(tmp_path))
    assert (bc["learner"], bc["scope"], es["seeds"]) == ("bc", "up to 1,000", [0, 1])
    assert es["total"]["value"] == pytest.approx(0.03)
