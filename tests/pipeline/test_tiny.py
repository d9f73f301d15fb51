"""The tiny preset from sources to report, under both engines, disturbed and undisturbed."""

import json
import os
import signal
import sys
from operator import itemgetter
from pathlib import Path

import pytest

from mlgo.base.artifacts import MODULES, RESULTS, SCORES, SHIPPED_SIZES, read_provenance, read_table
from mlgo.base.files import file_sha256, read_record
from mlgo.deploy.export import FORMS
from mlgo.learn.cost import read_cost
from tests.conftest import wait_for
from tests.pipeline.conftest import STAGES, Checkout, wait_for_state


def test_every_stage_leaves_its_artifacts(finished):
    assert {name.split("/")[0] for name in finished.hashes()} == set(STAGES)
    data = finished.root / "data"
    modules = read_table(data / "corpus/modules.parquet", MODULES)
    assert modules.num_rows == 24
    scores = read_table(data / "baseline/scores.parquet", SCORES).to_pylist()
    judged = [row for row in modules.to_pylist() if row["split"] != "train"]
    assert len(judged) == 12
    assert len(scores) == 2 * 24 + 2 * 12  # heuristic and echo of all; never and random of those that are judged
    assert {row["failure"] for row in scores} == {""}
    results = read_table(data / "evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["policy"] for row in results} == {"bc", "es", "marginal"}
    assert {row["project"] for row in results if row["split"] == "test"} == {"calc", "geometry"}
    assert read_provenance(data / "evaluation/results.parquet")["package"].startswith("mlgo ")
    assert list(data.glob("evaluation/parts/*")) == []


def test_every_test_program_is_linked_under_everyone(finished):
    data = finished.root / "data"
    shipped = read_table(data / "evaluation/shipped.parquet", SHIPPED_SIZES).to_pylist()
    assert {row["program"] for row in shipped} == {"calc.so", "geometry.so"}
    others = {"never", "-Os", "-O2"}
    assert {row["contender"] for row in shipped} == {"heuristic", "bc-s0", "es-s0", "marginal-s0"} | others
    assert {(row["failure"], row["split"]) for row in shipped} == {("", "test")}
    for row in (row for row in shipped if row["contender"] not in others):
        told = sum(kind["text"] + kind["unwind"] for kind in row["kinds"] or ())
        assert told == 0 if row["folded"] else 0 < told <= row["text"] + row["unwind"]
    assert 'id="ships"' in (data / "report/report.html").read_text()


def test_a_finished_policy_on_the_corpus_has_the_figures_of_the_run(finished):
    options = ("--preset", "config/presets/tiny.yaml", "--workers", "2", "--output", "data/work/again", "--json")
    run = finished.succeed(
        *("mlgo", "evaluate", "--policy", "data/policies/es-s0", "--corpus", "data/corpus", "--split", "test", *options)
    )
    found = json.loads(run.stdout)
    shipped = read_table(finished.root / "data/evaluation/shipped.parquet", SHIPPED_SIZES).to_pylist()
    expected = [row for row in shipped if row["contender"] not in ("bc-s0", "marginal-s0")]
    key = itemgetter("program", "contender", "folded")
    assert sorted(found["shipped"], key=key) == sorted(expected, key=key)
    again = read_table(finished.root / "data/work/again/results.parquet", RESULTS).to_pylist()
    rows = read_table(finished.root / "data/evaluation/results.parquet", RESULTS).to_pylist()
    before = {(row["project"], row["module"]): row for row in rows if row["policy"] == "es" and row["split"] == "test"}
    assert len(again) == len(before)
    figures = itemgetter("text_bytes", "baseline_text_bytes", "num_inlined")
    for row in again:
        assert figures(row) == figures(before[row["project"], row["module"]])


def test_self_test_holds_for_the_samples(finished):
    summary = json.loads((finished.root / "data/baseline/summary.json").read_text())
    assert summary["self_test_passed"] == summary["modules"] == 24
    assert summary["self_test_failed"] == []


def test_exported_models_decide_as_the_policies(finished):
    for name in ("bc-s0", "es-s0", "marginal-s0"):
        parity = read_record(finished.root / f"data/export/{name}/parity.json")
        assert {form: one["mismatches"] for form, one in parity.items()} == dict.fromkeys(FORMS, 0)
        recorded = read_table(finished.root / "data/baseline/trace.parquet").num_rows
        asked = {form: one["questions"] for form, one in parity.items()}
        assert asked == {"saved_model": 1000, "cpp": recorded, "tflite": min(recorded, 10_000), "tosa": 1000}
        for form, one in parity.items():
            folder = finished.root / f"data/export/{name}/{form}"
            assert {file: file_sha256(folder / file) for file in one["files"]} == one["files"]
        assert set(parity["cpp"]["files"]) == {"InlinerSizeModel.cpp", "InlinerSizeModel.h"}
        assert set(parity["tflite"]["files"]) == {"model.tflite", "output_spec.json"}


def test_each_export_has_a_card_and_can_be_published(finished):
    filters = [("split", "==", "test"), ("folded", "==", False)]
    rows = read_table(finished.root / "data/evaluation/shipped.parquet", SHIPPED_SIZES, filters=filters).to_pylist()
    for name in ("bc-s0", "es-s0", "marginal-s0"):
        card = read_record(finished.root / f"data/export/{name}/card.json")
        splits = card["corpus"]["splits"]  # a clone has seen the trace alone, so its provenance names no corpus
        assert splits is None if name == "bc-s0" else sum(sum(one.values()) for one in splits.values()) == 24
        test, train = card["gains"]
        assert (test["split"], train["split"]) == ("test", "train")
        mine, heuristic = (sum(row["total"] for row in rows if row["contender"] == one) for one in (name, "heuristic"))
        assert test["answers"][0]["gain"]["value"] == pytest.approx(1 - mine / heuristic)
        assert (test["answers"][0]["items"], train["answers"][0]["items"]) == ("programs", "modules")
        finished.succeed(
            "mlgo", "publish", f"data/policies/{name}", "--version", "0.1.0", "-o", f"data/work/{name}.tar.zst"
        )
        check = finished.run("mlgo", "publish", "--check", f"data/work/{name}.tar.zst", "--json")
        parity = read_record(finished.root / f"data/export/{name}/parity.json")
        assert json.loads(check.stdout)["policies"] == {name: sum(len(parity[one]["files"]) for one in FORMS) + 5}


def test_second_run_has_nothing_to_do(finished):
    assert finished.is_done(*finished.snakemake())


def test_a_changed_file_reruns_what_imports_it_and_nothing_once_it_is_as_before(finished):
    source = finished.root / "mlgo/learn/es/gradient.py"
    before = source.read_text()
    source.write_text(f"{before}# changed\n")
    try:
        jobs = finished.jobs(*finished.snakemake("--dry-run", "--", "data/policies/es-s0/weights.npy"))
        others = finished.is_done(*finished.snakemake("--", "data/policies/marginal-s0/weights.npy"))
    finally:
        source.write_text(before)
    assert jobs == {"train_es": "1", "total": "1"}
    assert others
    assert finished.is_done(*finished.snakemake())


def test_rules_run_in_an_environment_that_is_not_activated(finished):
    before = finished.hashes()
    snakemake, *options = finished.snakemake("--forcerun", "make_report", "--", "report")
    run = finished.succeed("env", f"PATH={os.defpath}", f"{Path(sys.executable).parent}/{snakemake}", *options)
    assert "1 of" in run.stdout + run.stderr
    assert finished.hashes() == before


def test_report_is_said(finished):
    run = finished.succeed("mlgo", "report")
    assert "data/report/report.html" in run.stdout
    assert run.stdout.startswith("What ships is ")
    assert "in total under marginal-s0 than under -Oz" in run.stdout
    assert "instead: -Os" in run.stdout
    assert "es-s0, objects of test projects:" in run.stdout


def test_scoreboard_counts_what_the_compile_host_counted(finished):
    run = finished.succeed("mlgo", "report", "scoreboard", "--json")
    found = {one["learner"]: one for one in json.loads(run.stdout)}
    assert sorted(found) == ["bc", "es", "marginal"]
    assert found["es"]["evaluations"] == 44  # 4 validations, then twice 4 candidates on 4 modules and 4 validations
    for learner, entry in found.items():
        cost = read_cost(finished.root / "data/work", f"{learner}-s0")
        assert (cost.evaluations, cost.complete) == (entry["evaluations"], True)
        assert cost.compiles <= cost.evaluations


def test_the_doctor_finds_a_finished_run_in_order(finished):
    run = finished.succeed("mlgo", "doctor", "--json")
    (check,) = [one for one in json.loads(run.stdout)["checks"] if one["name"] == "older settings"]
    assert check["detail"] == "left nothing"


def test_nothing_is_left_running(finished):
    assert finished.processes() == []


def test_unknown_key_is_one_clear_message(finished):
    run = finished.run("snakemake", "--cores", "1", "--config", "es={generatoins: 3}", "--dry-run")
    assert run.returncode != 0
    assert "unknown key 'es.generatoins'" in run.stderr + run.stdout


@pytest.mark.slow
def test_dvc_gives_the_same_bytes(finished, tmp_path):
    checkout = Checkout(tmp_path)
    checkout.succeed("mlgo", "config", "use", "tiny")
    checkout.commit()
    checkout.succeed("dvc", "repro")
    assert checkout.hashes() == finished.hashes()
    again = checkout.run("dvc", "status", "dvc.yaml")  # workflow/choices has a pipeline of its own
    assert "up to date" in again.stdout


def test_the_lock_of_a_killed_run_is_removed_as_its_message_says(finished):
    finished.succeed("snakemake", "--unlock")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_disturbed_run_ends_as_an_undisturbed_one(finished, tmp_path, number):
    checkout = Checkout(tmp_path)
    child = checkout.start(*checkout.snakemake(), start_new_session=True)
    wait_for_state(child, checkout.root / "data/work")
    if number == signal.SIGINT:
        os.killpg(child.pid, number)  # as a terminal does
    else:
        child.send_signal(number)
    child.communicate(timeout=60)
    wait_for(lambda: checkout.processes() == [], 20)
    checkout.succeed("snakemake", "--unlock")
    checkout.succeed(*checkout.snakemake())
    assert checkout.hashes() == finished.hashes()
