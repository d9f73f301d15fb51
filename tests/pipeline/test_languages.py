"""A run that trains on one language: its policies leave modules in the other to the compiler."""

import pytest
import yaml

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.policy.stored import languages_of, load_policy
from tests.pipeline.conftest import copy_of


@pytest.mark.slow
@pytest.mark.timeout(1600)  # the tiny run, and another one
def test_a_run_that_trains_on_one_language(finished, tmp_path_factory):
    checkout = copy_of(finished, tmp_path_factory.mktemp("languages"))
    drawn = {"min_questions": 3, "draw": "projects"}
    held = {"train": {"algorithms": ["bc", "marginal"], "seeds": [0], "languages": ["c++"], **drawn}}
    (checkout.root / "held.yaml").write_text(yaml.safe_dump(held))
    checkout.succeed(*checkout.snakemake("held.yaml", "--", "evaluate"))
    for name in ("bc-s0", "marginal-s0"):
        policy = load_policy(checkout.root / "data/policies" / name)
        assert languages_of(policy) == ("c++",)
        known = {key: policy.origin.get(key) for key in drawn}
        assert known == (dict.fromkeys(drawn) if name == "bc-s0" else drawn)  # bc compiles nothing
    rows = read_table(checkout.root / "data/evaluation/results.parquet", RESULTS).to_pylist()
    assert {row["language"] for row in rows} == {"c", "c++"}
    for row in rows:
        assert (row["num_questions"] == 0) == (row["language"] == "c")
        assert row["language"] == "c++" or row["text_bytes"] == row["baseline_text_bytes"]
