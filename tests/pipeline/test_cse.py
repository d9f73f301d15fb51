"""Choosing eliminations, from recorded methods to the report."""

import json
import re
import shutil
import sys
from importlib.util import find_spec

import pyarrow.parquet as pq
import pytest
import yaml

from tests.fakes.collection import make_collection
from tests.pipeline.conftest import Checkout, contents

LEARNERS = ("bc", "marginal", "es", "ppo", *(("sb3",) if find_spec("sb3_contrib") else ()))
SMALL = {
    "policy": {"hidden": [8]},
    "train": {"algorithms": list(LEARNERS)},
    "bc": {"max_epochs": 30, "patience": 5, "batch_size": 128, "learning_rate": 0.02},
    "es": {"start": "marginal", "generations": 2, "pairs": 3, "modules": 10, "validate_every": 1},
    "ppo": {
        "start": "bc",
        "iterations": 2,
        "modules": 10,
        "episodes": 4,
        "baseline": "siblings",
        "validate_every": 1,
        "start_temperature": 4.0,
    },
    "evaluate": {"splits": ["test", "train"], "resamples": 200},
}
JIT = {
    "task": "jit-cse",
    "cse": {
        "min_viable": 3,
        "max_candidates": 16,
        "max_exhaustive": 6,
        "max_trials": 64,
        "margins": [0.0, 0.5],
        "sb3_steps": 300,
        "superpmi": {
            "command": [sys.executable, "tests/fakes/superpmi.py"],
            "jit": "libclrjit.so",
            "collection": "methods.mch",
        },
    },
}


def ran(root, case: dict) -> Checkout:
    checkout = Checkout(root)
    (root / "libclrjit.so").touch()
    (root / "methods.mch").write_text(json.dumps(make_collection(120, 0)))
    (root / "small.yaml").write_text(yaml.safe_dump({**SMALL, **case}))
    checkout.succeed(*snakemake("small.yaml"), timeout=900)
    return checkout


def snakemake(preset: str, *options: str) -> list[str]:
    profile = ["--workflow-profile", "workflow/profiles/default"]
    return ["snakemake", *profile, "--cores", "2", "--configfile", preset, *options]


@pytest.fixture(scope="module")
def jit(tmp_path_factory) -> Checkout:
    return ran(tmp_path_factory.mktemp("jit"), JIT)


@pytest.mark.slow
def test_recorded_methods_come_to_their_report(jit):
    folder = jit.root / "data" / "cse"
    assert "PerfScore" in (folder / "report" / "report.html").read_text()
    for learner in LEARNERS:
        rows = pq.read_table(folder / "evaluation" / f"{learner}-s0.parquet").to_pylist()
        assert len(rows) > 20
        assert not [row for row in rows if row["failure"]]
    jit.succeed("mlgo", "report", "cse", "--json")
    assert not jit.processes()


@pytest.mark.slow
def test_learning_on_the_double_beats_its_heuristic(jit):
    units = pq.read_table(jit.root / "data/cse/baseline/compiles.parquet").to_pylist()
    heuristic = {row["unit"]: row["score"] for row in units if row["way"] == "heuristic"}
    rows = pq.read_table(jit.root / "data/cse/evaluation/marginal-s0.parquet").to_pylist()
    test = [row for row in rows if row["split"] == "test"]
    assert sum(row["score"] < heuristic[row["unit"]] for row in test) > 2 * sum(
        row["score"] > heuristic[row["unit"]] for row in test
    )


@pytest.mark.slow
def test_nothing_is_left_to_do_afterwards(jit):
    assert jit.is_done(*snakemake("small.yaml"))


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes_on_any_number_of_workers(jit, tmp_path):
    folder = jit.root / "data" / "cse"
    before = contents(folder)
    shutil.rmtree(folder)
    shutil.rmtree(jit.root / "data" / "work" / "checkpoints")
    jit.succeed(*["1" if word == "2" else word for word in snakemake("small.yaml")], timeout=900)
    assert contents(folder) == before


@pytest.mark.slow
def test_a_sweep_of_two_points_comes_to_its_page(jit):
    (jit.root / "points.yaml").write_text(
        yaml.safe_dump(
            {"sweep": {"learners": ["es"], "points": {"es.step_size": [0.05, 0.1]}}, "evaluate": {"splits": ["test"]}}
        )
    )
    jit.succeed(*snakemake("small.yaml", "points.yaml", "--", "sweep"), timeout=900)
    record = json.loads((jit.root / "data/sweep/sweep.json").read_text())
    assert [one["name"] for one in record["points"]] == ["es,es.step_size=0.05", "es,es.step_size=0.1"]
    for one in record["points"]:
        rows = pq.read_table(jit.root / f"data/sweep/results/{one['name']}-s0/results.parquet").to_pylist()
        for split in ("validation", "test"):
            assert one[split]["modules"] == sum(row["split"] == split for row in rows) > 0
            assert one[split]["low_percent"] <= one[split]["gain_percent"] <= one[split]["high_percent"]
    assert "Gains are in PerfScore" in (jit.root / "data/sweep/sweep.html").read_text()
    table = jit.run("mlgo", "report", "sweep").stdout
    assert re.search(r"^\* +es +0\.(05|1) .*\d$", table, re.MULTILINE)  # costs are known, too
    assert not (jit.root / "data/sweep/homes").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_dvc_gives_the_same_bytes(jit, tmp_path):
    checkout = Checkout(tmp_path)
    for name in ("libclrjit.so", "methods.mch"):
        shutil.copy(jit.root / name, tmp_path)
    shutil.copy(jit.root / "small.yaml", tmp_path / "config" / "presets")
    checkout.succeed("mlgo", "config", "use", "small")
    checkout.commit()
    checkout.succeed("dvc", "repro", "workflow/choices/dvc.yaml")
    found = contents(tmp_path / "data/cse")
    assert {name: found[name] for name in found if not name.endswith(".gitignore")} == contents(jit.root / "data/cse")
    assert "up to date" in checkout.run("dvc", "status", "workflow/choices/dvc.yaml").stdout


@pytest.mark.parametrize(
    "learner", ["sb3", *(pytest.param(one, marks=pytest.mark.slow) for one in ("marginal", "es", "ppo"))]
)
def test_every_learner_has_its_way_to_the_report(learner, tmp_path):
    checkout = Checkout(tmp_path)
    start = {"es": {"start": "bc"}, "ppo": {"start": "bc"}, "train": {"algorithms": ["bc", learner]}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**JIT, **start}))
    run = checkout.succeed(*snakemake("small.yaml", "--dry-run"))
    assert f"train_{learner}" in run.stdout


def test_points_with_other_labels_have_a_baseline_of_their_own(tmp_path):
    checkout = Checkout(tmp_path)
    sweep = {"sweep": {"learners": ["es"], "points": {"cse.max_trials": [64, 32]}}, "es": {"start": "bc"}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**JIT, **sweep}))
    jobs = checkout.jobs(*snakemake("small.yaml", "--dry-run", "--", "sweep"))
    assert jobs == {
        **{"enumerate_cse": "2", "label_cse": "2", "train_point": "4", "evaluate_point": "2"},
        **{"report_sweep": "1", "sweep": "1", "total": "12"},
    }


def test_a_missing_collection_is_named(tmp_path):
    checkout = Checkout(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"task": "jit-cse"}))
    run = checkout.run(*snakemake("small.yaml"))
    assert run.returncode != 0
    assert "cse.superpmi.collection: name a file of recorded methods" in run.stdout + run.stderr
