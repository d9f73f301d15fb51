"""Other train sets and an older compiler, on the sample corpus."""

import json
import re

import pytest
import yaml

from mlgo.base.artifacts import GENERALISATION, read_provenance, read_table
from mlgo.base.config import load_config
from mlgo.base.files import read_json, read_record, write_json, write_record
from mlgo.host.frontend import FrontEnd
from mlgo.host.toolchain import find_toolchain
from tests.conftest import FLAGS, SAMPLE
from tests.pipeline.conftest import WorkingCopy, copy_of

pytestmark = pytest.mark.timeout(1600)  # four trainings and two corpora
LIGHT = {
    "evaluate": {"splits": ["test"]},
    "bc": {"max_epochs": 10},
    "marginal": {"rounds": 1, "compiles": 2, "max_compiles": 3, "max_epochs": 20},
}
COMPILERS = {"ziglang clang 22.1.8", "ziglang clang 19.1.7"}


def snakemake(checkout: WorkingCopy, *options: str) -> list[str]:
    """Snakemake for the generalisation."""
    return checkout.snakemake("light.yaml", *options, "--", "generalisation")


@pytest.fixture(scope="module")
def generalised(finished, tmp_path_factory) -> WorkingCopy:
    """A copy of the finished tiny run in which the generalisation ran as well, with LLVM 19 and little training."""
    checkout = copy_of(finished, tmp_path_factory.mktemp("generalisation"))
    path = checkout.root / "config/config.yaml"
    config = yaml.safe_load(path.read_text())
    del config["generalisation"]["compilers"]["llvm21"]
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    (checkout.root / "light.yaml").write_text(yaml.safe_dump(LIGHT))
    output, _ = (process := checkout.start(*snakemake(checkout))).communicate(timeout=1500)
    if "the package index cannot be reached" in output:
        pytest.skip("the package index cannot be reached")
    assert process.returncode == 0, output[-3000:]
    return checkout


def test_corpus_and_baseline_of_the_default_run_are_used(finished):
    jobs = finished.jobs(*finished.snakemake("--dry-run", "generalisation"))
    filled = {"build_project", "assemble_corpus", "score_project", "merge_baseline"}
    assert {name for name in jobs if not name.endswith("_with")} == {
        *filled,
        "fetch_compiler",
        "merge_generalisation",
        "generalisation",
        "total",
    }
    # Three train sets here, and both with two further compilers; each of these three is tested with all three.
    assert (jobs["fetch_compiler"], jobs["train_with"], jobs["evaluate_with"]) == ("2", "5", "11")
    assert jobs["build_project"] == jobs["score_project"] == "16"  # of the further compilers alone
    assert jobs["assemble_corpus"] == jobs["merge_baseline"] == "2"


@pytest.mark.slow
def test_every_policy_on_every_compiler_it_should_meet(generalised):
    rows = read_table(generalised.root / "data/generalisation/results.parquet", GENERALISATION).to_pylist()
    assert {row["failure"] for row in rows} == {""}
    assert {row["project"] for row in rows} == {"calc", "geometry"}
    new, old = sorted(COMPILERS, reverse=True)
    assert {(row["trained_with"], row["train_set"], row["tested_with"]) for row in rows} == {
        (new, "both", new),
        (new, "c", new),
        (new, "c++", new),
        (new, "both", old),
        (old, "both", new),
        (old, "both", old),
    }
    baselines = {
        compiler: {row["module"]: row["baseline_text_bytes"] for row in rows if row["tested_with"] == compiler}
        for compiler in COMPILERS
    }
    assert baselines[new].keys() == baselines[old].keys()
    assert baselines[new] != baselines[old]


@pytest.mark.slow
def test_the_older_compiler_is_itself(generalised):
    data = generalised.root / "data/generalisation/llvm19"
    summary = json.loads((data / "baseline/summary.json").read_text())
    assert summary["self_test_passed"] == summary["modules"] == 24
    trace = read_table(data / "baseline/trace.parquet")
    assert max(trace["callee_basic_block_count"].to_pylist()) > 1  # where LLVM 19 puts its decision when asked
    assert read_provenance(data / "corpus/projects/lz.parquet")["compiler"] == "ziglang clang 19.1.7"
    timings = generalised.root / "data/work/timings/baseline/lz.parquet"
    assert read_provenance(timings)["compiler"] == "ziglang clang 22.1.8"  # not written over


@pytest.mark.slow
def test_the_older_front_end_marks_functions_for_size(generalised, tmp_path):
    toolchain = find_toolchain(str(generalised.root / "data/work/compilers/llvm19/ziglang/zig"), "x86_64-linux-gnu")
    front_end = FrontEnd(toolchain, load_config(generalised.root / "config/config.yaml").compile, tmp_path / "cache")
    front_end.compile_to_bitcode(SAMPLE, "c", FLAGS["c"], "lz/encode.c", tmp_path / "m.bc")
    front_end.print_ir(tmp_path / "m.bc", tmp_path / "m.ll")
    text = (tmp_path / "m.ll").read_text()
    groups = set(re.findall(r"^define .*?(#\d+)", text, re.MULTILINE))
    assert groups
    for group in groups:
        (attributes,) = re.findall(rf"^attributes {group} = {{(.*)}}$", text, re.MULTILINE)
        assert {"minsize", "optsize"} <= set(attributes.split())
        assert "optnone" not in attributes
    assert "alloca" in text
    assert "!dbg" not in text


@pytest.mark.slow
def test_train_sets_are_in_the_policies(generalised):
    policies = generalised.root / "data/generalisation/policies"
    records = {path.name: read_json(path / "policy.json") for path in policies.iterdir()}
    languages = {name: record["provenance"]["languages"] for name, record in records.items()}
    assert languages == {
        "main-both-s0": ["c", "c++"],
        "main-c-s0": ["c"],
        "main-c++-s0": ["c++"],
        "llvm19-both-s0": ["c", "c++"],
    }
    assert len({json.dumps(record["centre"]) for record in records.values()}) == 4  # each has its own vocabulary
    assert len({json.dumps(record["features"]) for record in records.values()}) == 1


@pytest.mark.slow
def test_a_second_run_needs_neither_work_nor_compilers(generalised):
    (generalised.root / "data/work/compilers").rename(generalised.root / "data/work/elsewhere")
    is_done = generalised.is_done(*snakemake(generalised))
    (generalised.root / "data/work/elsewhere").rename(generalised.root / "data/work/compilers")
    assert is_done


@pytest.mark.slow
def test_the_tables(generalised):
    run = generalised.run("mlgo", "report", "generalisation", "--markdown", "docs/results/generalisation.md")
    assert (run.returncode, run.stderr) == (0, "")
    page = (generalised.root / "docs/results/generalisation.md").read_text()
    assert page.count("## Compilers, ") == 3
    for compiler in COMPILERS:
        assert f"| {compiler} | both | c, c++ | 0 | " in page


@pytest.mark.slow
def test_a_policy_for_a_feature_that_the_older_compiler_lacks(generalised, tmp_path):
    source = generalised.root / "data/generalisation/policies/main-both-s0"
    policy = tmp_path / "main-both-s0"
    policy.mkdir()
    (policy / "weights.npy").write_bytes((source / "weights.npy").read_bytes())
    record = read_record(source / "policy.json")
    write_record(policy / "policy.json", record | {"features": ["cost_of_llvm_30", *record["features"][1:]]})
    values = load_config(generalised.root / "config/config.yaml").model_dump()
    values["evaluate"]["splits"] = ["test"]
    write_json(tmp_path / "config.json", values | {"toolchain": "data/work/compilers/llvm19/ziglang/zig"})
    home = "data/generalisation/llvm19"
    run = generalised.run(
        *["python", "scripts/evaluate_policy.py", "--policy", str(policy)],
        *["--config", str(tmp_path / "config.json"), "--home", home],
        *["--work", str(tmp_path), "--output", str(tmp_path / "results.parquet")],
    )
    assert run.returncode == 1
    assert "lacks 1 of the policy's features (cost_of_llvm_30); it was trained for another task or LLVM" in run.stderr
    assert not (tmp_path / "results.parquet").exists()
