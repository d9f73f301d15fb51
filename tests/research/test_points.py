"""Points of a sweep from made-up results: gains by hand, failures, costs, and what the page and the table say."""

import json
import re
from dataclasses import asdict

import pytest

from mlgo.base.artifacts import RESULTS, write_rows
from mlgo.base.files import read_json, write_json, write_text
from mlgo.base.names import PolicyName
from mlgo.cli.main import build_parser
from mlgo.compare.inference import Bootstrap
from mlgo.compare.trainings import read_curves
from mlgo.errors import ArtifactError
from mlgo.learn.cost import TrainingCost, cost_path
from mlgo.research.matrix import expand
from mlgo.research.points import read_points
from mlgo.research.sweep_page import point_records, render_sweep
from tests.compare.conftest import result_row
from tests.fakes.policies import write_policy
from tests.research.test_matrix import values

BOOTSTRAP = Bootstrap(200, 0.95, 0)
NUM_MODULES, NUM_PROJECTS = 12, 6


def grid(**sweep):
    return expand(values(**sweep))


def write_point(folder, name, seed, validation, test, evaluations=100):
    """A policy under which every module is this share smaller."""
    policy, shares = f"{name}-s{seed}", {"validation": validation, "test": test}
    text = f"generation,evaluations,validation_reward\n0,10,0.0\n1,{evaluations},{validation}\n"
    write_text(folder / "policies" / policy / "history.csv", text)
    write_policy(folder / "policies" / policy, {"corpus_sha256": "aa"})
    before = {"text_bytes": 1000, "exec_bytes": 500, "dedup_bytes": 700}
    after = {split: before | {"text_bytes": round(1000 * (1 - share))} for split, share in shares.items()}
    rows = [
        result_row(f"{split}{i % NUM_PROJECTS}", f"{i}.c", after[split], before, name, seed, split=split)
        for split in shares
        for i in range(NUM_MODULES)
    ]
    write_rows(folder / "results" / policy / "results.parquet", rows, RESULTS, {})


def write_failure(folder, name, seed, message):
    write_json(folder / "policies" / f"{name}-s{seed}" / "failure.json", {"message": message})
    write_json(folder / "results" / f"{name}-s{seed}" / "failure.json", {"message": f"holds no policy: {message}"})


@pytest.fixture
def sweep():
    return grid(seeds=[0, 1], points={"es.step_size": [0.1, 0.2, 0.4]})


@pytest.fixture
def folder(tmp_path):
    """0.1 gains 1 and 3 % on validation; of 0.2 one seed failed; of 0.4 both."""
    folder = tmp_path / "data/sweep"
    write_point(folder, "es,es.step_size=0.1", 0, 0.01, 0.05, 100)
    write_point(folder, "es,es.step_size=0.1", 1, 0.03, 0.07, 120)
    write_point(folder, "es,es.step_size=0.2", 0, 0.04, -0.10)
    for name, seed in (("0.2", 1), ("0.4", 0), ("0.4", 1)):
        write_failure(folder, f"es,es.step_size={name}", seed, "the mean policy has left the range of numbers")
    return folder


def test_gains_are_means_over_the_seeds_that_did_not_fail(folder, sweep):
    low, middle, high = point_records(read_points(folder, sweep, BOOTSTRAP))
    assert [one["best_on_validation"] for one in (low, middle, high)] == [False, True, False]  # whatever test says
    assert low["validation"]["gain_percent"] == pytest.approx(100 * (1 - (0.99 * 0.97) ** 0.5), abs=1e-4)
    assert low["test"]["gain_percent"] == pytest.approx(100 * (1 - (0.95 * 0.93) ** 0.5), abs=1e-4)
    assert low["validation"]["total_gain_percent"] == 2.0
    assert low["test"]["gain_percent_by_seed"] == {"0": 5.0, "1": 7.0}
    assert (low["validation"]["low_percent"], low["validation"]["high_percent"]) == (1.0, 3.0)  # seeds, not projects
    assert (low["test"]["modules"], low["test"]["projects"], low["evaluations"]) == (NUM_MODULES, NUM_PROJECTS, 110)
    assert (low["test"]["projects_smaller"], low["test"]["projects_larger"]) == (NUM_PROJECTS, 0)
    # All six projects go one way, of two points: 2 / 2 ** 6, twice.
    assert (low["test"]["p"], low["test"]["verdict"]) == (0.0625, "no difference shown")
    assert (middle["validation"]["gain_percent"], middle["test"]["gain_percent"]) == (4.0, -10.0)
    assert middle["failures"] == {"1": "the mean policy has left the range of numbers"}
    assert (high["evaluations"], list(high["failures"])) == (None, ["0", "1"])
    assert "test" not in high


def test_seeds_of_different_corpora_are_refused(folder, sweep):
    write_policy(folder / "policies/es,es.step_size=0.1-s1", {"corpus_sha256": "bb"})
    with pytest.raises(ArtifactError, match="another corpus"):
        read_points(folder, sweep, BOOTSTRAP)


def test_the_page_says_all_of_it(folder, sweep):
    points = read_points(folder, sweep, BOOTSTRAP)
    names = ["es,es.step_size=0.1-s0", "es,es.step_size=0.1-s1", "es,es.step_size=0.2-s0"]
    curves = dict(zip(map(PolicyName.of, names), read_curves(folder / "policies", names), strict=True))
    page = render_sweep(points, sweep, curves, BOOTSTRAP)
    assert page == render_sweep(points, sweep, curves, BOOTSTRAP)
    text = page[page.index("<main>") :]
    assert "3 points, seeds 0, 1." in text
    assert re.search(r"★</td>\s*<td class=\"left\">es</td>\s*<td>0.2</td>\s*<td>1 of 2</td>", text)
    assert "+6.01\N{NO-BREAK SPACE}%" in text
    assert text.count("the mean policy has left the range of numbers") == 3
    assert "figure-gains" in text
    assert "figure-curves" in text
    assert not re.search("https?://", text[: text.index("<script>")])


def test_several_settings_are_parallel_coordinates(tmp_path):
    sweep = grid(points={"es.step_size": [0.1, 0.2], "es.trainable_layers": [1, 2]})
    for i, point in enumerate(sweep.points):
        write_point(tmp_path, point.name, 0, 0.01 * i, 0.0)
    page = render_sweep(read_points(tmp_path, sweep, BOOTSTRAP), sweep, {}, BOOTSTRAP)
    assert '"type":"parcoords"' in page
    assert "figure-curves" not in page


def test_learners_that_do_not_read_the_setting_and_a_page_of_failures_alone(tmp_path):
    sweep = grid(learners=["bc", "es"], points={"es.step_size": [0.1, 0.2]})
    for point in sweep.points:
        write_point(tmp_path, point.name, 0, 0.01, 0.01)
        write_failure(tmp_path / "failed", point.name, 0, "no module is left")
    page, failed = (
        render_sweep(read_points(folder, sweep, BOOTSTRAP), sweep, {}, BOOTSTRAP)
        for folder in (tmp_path, tmp_path / "failed")
    )
    assert "<td>\N{EN DASH}</td>" in page
    assert "figure-gains" not in failed
    assert failed.count("no module is left") == 3


def test_what_is_missing_is_named(folder, sweep):
    (folder / "policies/es,es.step_size=0.1-s1/history.csv").unlink()
    with pytest.raises(ArtifactError, match=r"history\.csv is missing"):
        read_points(folder, sweep, BOOTSTRAP)
    with pytest.raises(ArtifactError, match="make sweep"):
        read_points(folder, grid(points={"es.step_size": [0.1, 0.9]}, seeds=[0]), BOOTSTRAP)


def run(*options):
    args = build_parser().parse_args(["report", "sweep", *options])
    args.run(args)


def test_the_table_with_costs(folder, sweep, capsys):
    data = folder.parent
    with pytest.raises(ArtifactError, match=r"sweep\.json is missing; make it with: make sweep"):
        run("--data", str(data))
    record = {"seeds": [0, 1], "points": point_records(read_points(folder, sweep, BOOTSTRAP))}
    write_json(folder / "sweep.json", record)
    for seed, compiles in ((0, 40), (1, 20)):
        cost = TrainingCost("x", 2, 1, 90.0, 100, compiles)
        write_json(cost_path(data / "work", f"es,es.step_size=0.1-s{seed}"), asdict(cost))
    run("--data", str(data))
    head, first, second, third, *failures = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == (
        "learner es.step_size seeds gain per project, validation in total, validation gain per project, test in total, "
        "test test projects with less / more verdict, test compiles asked for compiles by trees minutes"
    )
    assert first.split()[:5] == ["es", "0.1", "2", "+2.01", "%"]
    assert first.split()[-5:] == ["110", "30", "70.0", "%", "1.5"]  # of one training: 100, 30, 90 seconds
    assert second.split()[:3] == ["*", "es", "0.2"]
    assert "failed" in third
    assert failures[0] == "es,es.step_size=0.2-s1 failed: the mean policy has left the range of numbers"
    run("--data", str(data), "--json")
    first, second, _ = json.loads(capsys.readouterr().out)["points"]
    assert (first.pop("cost")["compiles"], second["cost"]) == (60, None)
    assert first == read_json(folder / "sweep.json")["points"][0]


def test_costs_of_experiments(tmp_path, capsys):
    with pytest.raises(ArtifactError, match="dvc exp run --queue"):
        run("--data", str(tmp_path), "--experiments")
    for name, policy, compiles in (("tidy-newt", "bc-s0", 0), ("tidy-newt", "es-s0", 25)):
        cost = TrainingCost("x", 2, 1, 60.0, 4 * compiles, compiles)
        write_json(tmp_path / "work/timings/experiments" / name / f"{policy}.json", asdict(cost))
    run("--data", str(tmp_path), "--experiments")
    assert capsys.readouterr().out.splitlines()[1].split() == ["tidy-newt", "2", "100", "25", "75.0", "%", "2.0"]
