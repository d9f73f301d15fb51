"""Choices of eliminations: figures by hand, and the page."""

import csv
import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from mlgo.base.artifacts import CSE_COMPILES, CSE_LABELS, CSE_RESULTS, CSE_UNITS, write_rows
from mlgo.base.config import read_yaml
from mlgo.base.files import file_sha256, write_json, write_text
from mlgo.compare.inference import Bootstrap
from mlgo.compare.units import BEST, num_failed, read_units, unit_record, unit_rows
from mlgo.errors import ArtifactError
from mlgo.report.choices import choice_comparisons, choice_metrics
from tests.conftest import REPOSITORY
from tests.fakes.policies import write_policy

BOOTSTRAP = Bootstrap(200, 0.95, 0)
NONE = {"a": 200.0, "b": 100.0, "c": 8.0, "d": 1.0, "e": 10.0}
HEURISTIC = {"a": 100.0, "b": 100.0, "c": 4.0, "d": 0.5, "e": 10.0}
LABELS = {"a": 50.0, "b": 100.0, "c": 2.0, "d": 0.25}
POLICIES = {
    "es-s0": {"a": 50.0, "b": 100.0, "c": 8.0, "d": 0.25, "e": 5.0},
    "es-s1": {"a": 100.0, "b": 200.0, "c": 4.0, "d": None},  # not evaluated on e
    "bc-s0": {"a": 100.0, "b": 100.0, "c": 4.0, "d": 0.5, "e": 10.0},
}
SIZES = {("es-s0", "a"): 110}
ELIMINATIONS = {"a": 2, "b": 0, "c": 1, "d": 1, "e": 3}


def choice(unit, score, size=100):
    if score is None:
        failed = {"score": None, "code_bytes": None, "requested": [], "num_performed": None}
        return {"unit": unit, **failed, "failure": "timeout", "message": "killed"}
    kept = {"score": score, "code_bytes": size, "requested": [0], "num_performed": ELIMINATIONS.get(unit, 0)}
    return {"unit": unit, **kept, "failure": "", "message": ""}


def unit_row(unit, split, skip_reason=""):
    counts = {"num_candidates": 3, "num_viable": len(unit) + 1, "skip_reason": skip_reason}
    known = {"unit": unit, "split": split, "body_sha256": unit}
    return {**known, **counts}


def write_run(root: Path, task="jit-cse", policies=POLICIES, labels=LABELS, heuristic=HEURISTIC, none=NONE, split=None):
    """A finished run: four test units, one for validation, none for training; one unit that is left out."""
    split = split or {unit: "validation" if unit == "e" else "test" for unit in heuristic}
    units = [unit_row(unit, split[unit]) for unit in heuristic]
    origin = {"task": task, "compiler": {"name": "some"}}
    skipped = unit_row("skipped", "train", "fails without elimination: timeout")
    write_rows(root / "baseline/units.parquet", [*units, skipped], CSE_UNITS, origin)
    compiles = [
        {"way": way, **choice(unit, score)}
        for unit in heuristic
        for way, score in (("none", none[unit]), ("heuristic", heuristic[unit]))
    ]
    write_rows(root / "baseline/compiles.parquet", compiles, CSE_COMPILES, origin)
    origin = {"baseline_sha256": file_sha256(root / "baseline/compiles.parquet")}
    rows = [
        {**choice(unit, score), "exhaustive": unit in ("a", "b"), "num_tried": 4, "num_failed": 0}
        for unit, score in labels.items()
    ]
    write_rows(root / "labels.parquet", rows, CSE_LABELS, origin)
    for name, scores in policies.items():
        learner, _, seed = name.rpartition("-s")
        rows = [
            {"split": split[unit], "policy": learner, "seed": int(seed)}
            | choice(unit, score, SIZES.get((name, unit), 100))
            for unit, score in scores.items()
        ]
        write_rows(root / f"evaluation/{name}.parquet", rows, CSE_RESULTS, {**origin, "policy_sha256": "ab" * 32})
        write_policy(root / f"policies/{name}", {"algorithm": learner})
        history = "epoch,loss,validation_loss\n0,1.5,1.75\n1,0.5,0.75\n"
        if learner == "es":
            history = "generation,mean_reward,validation_reward\n0,,0.0\n1,-0.02,0.01\n"
        write_text(root / f"policies/{name}/history.csv", history)
    return root


def read(root: Path, task="jit-cse", policies=POLICIES):
    tables = [root / f"evaluation/{name}.parquet" for name in policies]
    return read_units(task, root / "baseline", root / "labels.parquet", tables)


def rows_of(measured):
    """What is said of each contender, by place."""
    rows = unit_rows(measured, BOOTSTRAP)
    return {(row.split, row.scope, row.name): Said(unit_record(row)) for row in rows}


class Said(dict):
    """A record whose figures are attributes."""

    def __getattr__(self, name):
        value = self[name]
        return Said(value) if isinstance(value, dict) else value


@pytest.fixture
def found(tmp_path):
    return rows_of(read(write_run(tmp_path)))


def test_a_policy_by_hand(found):
    one = found["test", "all", "es-s0"]
    beside = one.heuristic  # 1/2, 1, 2, 1/2
    assert (beside.num_units, beside.better, beside.worse, beside.same, beside.much_worse) == (4, 2, 1, 1, 1)
    assert beside.geomean == pytest.approx(0.5**0.25)
    assert beside.mean_change == pytest.approx(0.0)
    assert 0.5 <= beside.low < beside.geomean < beside.high <= 2.0
    assert (one.score_sum, one.heuristic_sum) == (158.25, 204.5)  # fractions count
    assert one.headroom_share == pytest.approx((204.5 - 158.25) / (204.5 - 152.25))
    assert one.eliminations == 4.0
    assert one.failures == {"OK": 4}
    none = one.none  # 1/4, 1, 1, 1/4
    assert (none.better, none.worse, none.same) == (2, 0, 2)
    assert none.geomean == pytest.approx(0.5)
    assert one.size.geomean == pytest.approx(1.1**0.25)
    assert (one.size.better, one.size.worse, one.size.same) == (0, 1, 3)
    assert (beside.num_projects, one.finding) == (4, "no verdict: 4 projects, six are needed")
    assert (beside.median, beside.total) == (pytest.approx(0.5**0.5), pytest.approx(158.25 / 204.5))


def test_a_unit_on_which_a_policy_fails_is_left_out_on_both_sides(found):
    one = found["test", "all", "es-s1"]
    assert one.failures == {"OK": 3, "timeout": 1}
    assert (num_failed(one), one.heuristic.num_units) == (1, 3)
    assert one.heuristic.geomean == pytest.approx(2 ** (1 / 3))
    assert (one.score_sum, one.heuristic_sum, one.eliminations) == (304.0, 204.0, 3.0)
    assert one.headroom_share == pytest.approx(-100 / 52)


def test_seeds_together_by_hand(found):
    one = found["test", "all", "es-mean"]
    assert (one.num_seeds, one.heuristic.num_units) == (2, 3)  # d has no score under the other seed
    assert one.heuristic.geomean == pytest.approx(2 ** (1 / 6))  # 1 and 2 ** (1 / 3)
    assert (one.heuristic.better, one.heuristic.worse, one.heuristic.same) == (1, 2, 0)
    assert one.heuristic.mean_change == pytest.approx((-0.5 + 0 + 1 + 0 + 1 + 0) / 6)
    assert one.failures == {"OK": 7, "timeout": 1}
    assert one.score_sum == (158 + 304) / 2
    assert one.headroom_share == pytest.approx((204 - 231) / 52)
    assert ("validation", "all", "es-mean") not in found  # one seed was evaluated there
    assert ("test", "all", "bc-mean") not in found


def test_references_and_a_copy_of_the_heuristic(found):
    same, copy = found["test", "all", "heuristic"], found["test", "all", "bc-s0"]
    for one in (same, copy):
        assert (one.heuristic.geomean, one.heuristic.low, one.heuristic.high) == (1.0, 1.0, 1.0)
        assert (one.heuristic.same, one.headroom_share, one.none.geomean) == (4, 0.0, pytest.approx(0.5**0.75))
    none, best = found["test", "all", "none"], found["test", "all", BEST]
    assert none.heuristic.geomean == pytest.approx(2**0.75)
    assert none.headroom_share == pytest.approx((204.5 - 309) / 52.25)
    assert (best.headroom_share, best.heuristic.geomean) == (1.0, pytest.approx(0.5**0.75))


def test_without_a_label_there_is_no_share(found):
    best, one = found["validation", "all", BEST], found["validation", "all", "es-s0"]
    assert (best.failures, best.heuristic.num_units, best.heuristic.geomean) == ({"OK": 0, "no_label": 1}, 0, None)
    assert (one.heuristic.geomean, one.heuristic.low, one.headroom_share) == (0.5, None, None)


def test_splits_without_units_are_left_out(tmp_path):
    measured = read(write_run(tmp_path))
    comparisons = choice_comparisons(measured, unit_rows(measured, BOOTSTRAP))
    assert list(comparisons["splits"]) == ["test", "validation"]
    test = comparisons["splits"]["test"]
    assert (test["units"], test["labels"], test["exhaustive_labels"]) == (4, 4, 2)
    assert list(test["contenders"]) == ["heuristic", "none", BEST, "es-s0", "es-s1", "es-mean", "bc-s0"]
    assert test["contenders"]["es-s0"]["score_sum"] == 158.25
    assert test["contenders"]["es-s0"]["heuristic"]["geomean"] == 0.840896


def test_metrics_are_over_all_seeds(tmp_path):
    metrics = choice_metrics(unit_rows(read(write_run(tmp_path)), BOOTSTRAP))
    es = metrics["test"]["es"]
    assert es["geomean"] == pytest.approx(2 ** (1 / 6), abs=1e-6)
    assert (es["better"], es["worse"], es["failed"]) == (1, 2, 1)
    assert es["headroom_share"] == pytest.approx((204 - 231) / 52, abs=1e-6)
    assert metrics["validation"]["es"]["geomean"] == 0.5
    assert "low" not in metrics["validation"]["es"]


def test_each_unit_is_an_observation_of_the_verdict(tmp_path):
    ones, halves = dict.fromkeys("abcdefgh", 1.0), dict.fromkeys("abcdefgh", 0.5)
    write_run(tmp_path, "jit-cse", {"es-s0": halves}, halves, ones, ones)
    row = rows_of(read(tmp_path, policies=["es-s0"]))["test", "all", "es-s0"]
    assert (row.heuristic.low, row.heuristic.high, row.verdict) == (0.5, 0.5, "smaller")


def stale(root):
    write_rows(root / "labels.parquet", [], CSE_LABELS, {"baseline_sha256": "another"})


def unknown(root):
    policies = {"es-s0": {"a": 1.0, "x": 1.0}}
    split = {**dict.fromkeys("abcdx", "test"), "e": "validation"}
    write_run(root, policies=policies, split=split)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (stale, r"labels\.parquet was made with another baseline than"),
        (unknown, r"es-s0\.parquet holds unit x, which the baseline does not judge"),
        (
            lambda root: write_run(root, policies={"es-s0": {"a": 1.0}}),
            "es-s0 was evaluated on test, but not on unit b",
        ),
        (lambda root: write_run(root, policies={"es-s0": {}}), r"es-s0\.parquet holds no unit; evaluate again"),
        (lambda root: write_run(root, "other"), "was made for task other, not jit-cse"),
        (lambda root: (root / "labels.parquet").unlink(), "labels.parquet"),
    ],
)
def test_tables_that_do_not_belong_together(tmp_path, change, message):
    change(write_run(tmp_path))
    with pytest.raises(ArtifactError, match=message):
        read(tmp_path)


def test_a_table_named_twice(tmp_path):
    write_run(tmp_path)
    with pytest.raises(ArtifactError, match="es-s0 has unit a twice"):
        read(tmp_path, policies=["es-s0", "es-s0"])


def report(root: Path, task="jit-cse", output="report", policies=tuple(POLICIES), folders=None, confidence=0.95):
    tables = [root / "evaluation" / name for name in policies]
    values = read_yaml(REPOSITORY / "config/config.yaml")
    evaluate = values["evaluate"] | {"resamples": 100, "confidence": confidence}
    write_json(root / "config.json", {"task": task, "seed": 0, "evaluate": evaluate})
    command = [sys.executable, "scripts/report_cse.py", "--config", root / "config.json"]
    command += ["--baseline", root / "baseline", "--labels", root / "labels.parquet"]
    command += ["--evaluation", *(f"{table}.parquet" for table in tables)]
    command += ["--policies", *(root / "policies" / name for name in folders or policies)]
    return subprocess.run(
        [*command, "--output", root / output], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )


FILES = ("report.html", "comparisons.json", "metrics.json", "ratios.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run with its report."""
    root = write_run(tmp_path_factory.mktemp("run"))
    done = report(root)
    assert (done.returncode, done.stderr) == (0, "")
    return root


@pytest.mark.slow
def test_the_same_files_every_time(made):
    assert report(made, output="again").returncode == 0
    assert sorted(path.name for path in (made / "report").iterdir()) == sorted(FILES)
    for name in FILES:
        assert (made / "report" / name).read_bytes() == (made / "again" / name).read_bytes()


def test_the_page_is_complete(made):
    page = (made / "report/report.html").read_text()
    body = page[page.index("<main>") :]
    assert "<strong>PerfScore</strong>" in body
    assert re.search(r"<strong>Lower is\s+better\.</strong>", body)
    assert "bytes of text" not in body
    assert 'id="projects"' not in body
    for name in ("heuristic", "none", BEST, "es-s0", "es-s1", "es-mean", "bc-s0"):
        assert f'<td class="left">{name}</td>' in body
    for figure in ("ratios", "sizes", "headroom", "rewards-es", "losses-bc"):
        assert f'id="figure-{figure}"' in body
    assert re.search(r'>es-s1</td><td class="left">test</td><td class="left">timeout</td><td>1</td>', body)
    assert len(re.findall('<section class="card', body)) == 2  # a card for each learner
    assert not re.search(r'(?:src|href)="(?!#|data:)', re.sub(r"(?s)<script.*?</script>", "", page))
    assert str(made) not in page
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    assert all(f"sha256-{b64encode(sha256(one.encode()).digest()).decode()}" in page for one in scripts)


def test_ratios_for_plots(made):
    with (made / "report/ratios.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    of_one = [tuple(row.values())[2:] for row in rows if (row["contender"], row["split"]) == ("es-s0", "test")]
    assert of_one == [("a", "0.5", "1.1"), ("d", "0.5", "1.0"), ("b", "1.0", "1.0"), ("c", "2.0", "1.0")]
    assert len([row for row in rows if row["contender"] == "es-s1"]) == 3
    assert "heuristic" not in {row["contender"] for row in rows}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence": 1.5}, "section evaluate: confidence: input should be less than 1, got 1.5"),
        (
            {"folders": ("es-s0",)},
            "--policies names es-s0, --evaluation holds bc-s0, es-s0, es-s1; name the same policies",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    done = report(write_run(tmp_path), **arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "report").exists()


def test_a_unit_without_code_is_no_ratio(tmp_path):
    policies = {"es-s0": {**POLICIES["es-s0"], "a": 0.0}}
    row = rows_of(read(write_run(tmp_path, policies=policies), policies=policies))["test", "all", "es-s0"]
    assert row.heuristic.num_units == 3
    assert np.isfinite(row.heuristic.geomean)
