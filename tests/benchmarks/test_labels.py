"""What labels of some programs say about others."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.labels import learn
from mlgo.base.artifacts import write_table
from mlgo.base.sealed import load_sealed
from mlgo.base.types import TensorSpec
from mlgo.cli.tune import LABELS
from mlgo.errors import ArtifactError
from mlgo.evaluate.labels import label_table
from mlgo.evaluate.search import Labels
from mlgo.host.log import Header
from mlgo.host.session import CallAttribution
from tests.fakes.policies import linear_policy

INT64 = np.dtype(np.int64)
HEADER = Header((TensorSpec("cost", INT64, (1,)),), TensorSpec("decision", INT64, (1,)))
NEVER = linear_policy("inline-size", ["cost"], [0.0, -1.0])


@pytest.fixture
def tuned(tmp_path):
    """Folders of six programs, in which inlining saves 30 bytes where the cost is below 50, and else costs 30."""
    folders = []
    for number in range(6):
        costs = np.random.default_rng(number).integers(0, 100, 60)
        calls = np.zeros(60, np.int32)
        credit = CallAttribution(np.arange(2, dtype=np.uint64), np.ones(2, np.float32), calls, calls + 1)
        saved = [([place], 30.0 if cost < 50 else -30.0) for place, cost in enumerate(costs.tolist())]
        payloads = costs.astype(np.int64)[:, None].view(np.uint8)
        table = label_table(f"p{number}", 0, Labels(HEADER, payloads, np.zeros(60, np.int64), credit, saved))
        folders.append(tmp_path / f"p{number}")
        folders[-1].mkdir()
        write_table(folders[-1] / LABELS, table, table.schema, origin(f"p{number}"))
    return folders


def origin(project, **others):
    compiled = {"compiler_sha256": "c", "compile": {"ships": "whole"}, "base_sha256": "p"}
    return {"project": project, "base": 10_000, **compiled, **others}


def test_what_holds_in_some_programs_is_found_in_others(tuned):
    found = learn(tuned, NEVER, [2])
    assert (found["programs"], found["labels"]) == (6, 360)
    assert found["of_5_rank_correlation"] > 0.8
    chosen = found["of_5_caution_0"]
    assert chosen["helpful_share"] > 0.95
    assert chosen["mean_percent"] > 0.9 * found["all_helpful_percent"]
    assert found["variance_within_equal"] == 0.0
    # Of what the policy would not have answered itself, nothing is chosen.
    assert learn(tuned, replace(NEVER, weights=-NEVER.weights), [])["of_5_caution_0"]["flips"] == 0


def test_labels_that_are_not_learned_from(tuned):
    with pytest.raises(ArtifactError, match="5 programs with 20 labels; at least 6 are needed"):
        learn(tuned[:5], NEVER, [])
    table = label_table("p", 0, Labels(HEADER, np.zeros((0, 8), np.uint8), np.zeros(0, np.int64), None, []))
    sealed = load_sealed().names[0]
    for wrong, reason in (
        ({"project": sealed}, "of a sealed program"),
        ({"compiler_sha256": "d"}, "of different compilers"),
        ({"compile": {"ships": "objects"}}, "of different ways to compile or to ship"),
        ({"base_sha256": "q"}, "of different policies"),
    ):
        write_table(tuned[5] / LABELS, table, table.schema, origin("p5") | wrong)
        with pytest.raises(ArtifactError, match=reason):
            learn(tuned, NEVER, [])
