"""Embeddings of functions from sources to report, on the sample corpus with the real compiler."""

import json

import pytest

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.host.tasks.ir2vec import find_vocabulary, vocabulary_of
from mlgo.policy.stored import load_policy
from tests.pipeline.conftest import Checkout, ran

pytestmark = pytest.mark.slow

SMALL = """
compile: {ir2vec: random-4}
train: {algorithms: [bc, marginal], seeds: [0]}
marginal: {rounds: 1, modules: 4, max_epochs: 2, members: 2}
"""


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """A checkout in which the pipeline has run with embeddings."""
    return ran(tmp_path_factory.mktemp("embedded"), SMALL, "--", "all", "export")


@pytest.mark.timeout(590)
def test_policies_look_at_them(embedded):
    for name in ("bc-s0", "marginal-s0"):
        policy = load_policy(embedded.root / "data/policies" / name)
        assert vocabulary_of(policy.features) == "random-4"
        assert len(policy.features) == 38 + 2 * 4
    results = read_table(embedded.root / "data/evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["failure"] for row in results} == {""}
    assert "caller_random-4[3]" in (embedded.root / "data/report/report.html").read_text()


def test_nothing_is_exported(embedded):
    (told,) = (embedded.root / "data/export").iterdir()
    assert "No exported model takes embeddings" in told.read_text()


def test_tools_take_the_vocabulary_from_the_policy(embedded):
    policy = ["--policy", "data/policies/marginal-s0"]
    found = embedded.succeed("mlgo", "compile", "data/sample/json/parser.cpp", *policy, "--json")
    assert json.loads(found.stdout)["questions"] > 0
    driven = embedded.run("mlgo", "cc", *policy, "--", "-Oz", "-c", "data/sample/lz/match.c", "-o", "match.o")
    assert (driven.returncode, (embedded.root / "match.o").exists()) == (0, True)
    assert "the policy looks at embeddings (compile.ir2vec: random-4)" in driven.stderr
    assert "done without the policy" in driven.stderr


def scored(checkout: Checkout, *options: str) -> str:
    """What a run says that scores the corpus with embeddings from a file."""
    (checkout.root / "file.yaml").write_text(SMALL.replace("random-4", "own.json"))
    run = checkout.succeed(*checkout.snakemake("file.yaml", *options, "--", "data/baseline/scores.parquet"))
    return run.stdout + run.stderr


@pytest.mark.timeout(590)
def test_another_vocabulary_in_the_same_file_reruns_what_read_it(embedded):
    path = embedded.root / "own.json"
    path.write_bytes(find_vocabulary("random-4").content)
    scored(embedded)
    assert "Nothing to be done" in scored(embedded, "--dry-run")
    path.write_bytes(find_vocabulary("random-5").content)
    assert "score_project" in scored(embedded, "--dry-run")
    path.write_bytes(find_vocabulary("random-4").content)
    assert "Nothing to be done" in scored(embedded, "--dry-run")
