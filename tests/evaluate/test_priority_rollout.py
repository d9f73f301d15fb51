"""References and candidates of register priority, whose answers are floating-point numbers, with the real compiler."""

import numpy as np
import pytest

from mlgo.base.artifacts import read_table, schema_of_trace, write_table
from mlgo.corpus.store import Module
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline import ScoredModule, Scoring, score_references
from mlgo.evaluate.training import candidate_rewards
from mlgo.host.frontend import FrontEnd
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Quirks
from mlgo.objects.measures import scores_of
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import build_vocabulary, normalisation, recorded_values
from tests.conftest import FLAGS, SAMPLE

TASK = get_task("regalloc-priority")
MODULE = Module("matrix", "lu.cpp", "c++", "test", "")


@pytest.fixture(scope="module")
def bitcode(toolchain, fast, tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimized")
    front_end, path = FrontEnd(toolchain, fast, folder, TASK), folder / "lu.bc"
    front_end.compile_to_bitcode(SAMPLE, "c++", FLAGS["c++"], MODULE.key, path)
    path.write_bytes(front_end.finished(path))
    return {MODULE.key: path}


@pytest.fixture(scope="module")
def host(toolchain, fast):
    with CompileHost(toolchain, TASK.name, fast, 1) as host:
        yield host


@pytest.fixture(scope="module")
def baseline(host, bitcode, tmp_path_factory):
    return score_references(
        host, TASK, Quirks(), [MODULE], bitcode, Scoring(True, 0.5, 0), tmp_path_factory.mktemp("objects")
    )


def test_the_trace_holds_the_traced_references_answers(baseline, tmp_path):
    write_table(tmp_path / "trace.parquet", baseline.trace, schema_of_trace(baseline.trace), {})
    trace = read_table(tmp_path / "trace.parquet")
    scores = {row["advisor"]: row for row in baseline.scores}
    assert trace.num_rows == scores["longest"]["num_questions"] > 100
    sizes, stages = trace["li_size"].to_numpy(), trace["stage"].to_numpy()
    expected = np.log1p(sizes) / 7 - 1 - 2 * (stages == 2)
    assert TASK.actions.targets(trace["answer"].to_numpy()) == pytest.approx(expected, abs=1e-5)
    assert len(set(trace["context"].to_pylist())) > 1


def test_candidates_get_rewards_by_their_order(host, baseline, bitcode):
    scaling = normalisation(build_vocabulary(recorded_values(baseline.trace), 101))
    architecture = Architecture((TASK.actions.num_inputs(len(scaling.features)), 1))
    policy = Policy(TASK.name, scaling, architecture, np.zeros(architecture.num_params, np.float32))
    heuristic, equal = (
        next(row for row in baseline.scores if row["advisor"] == name) for name in ("heuristic", "equal")
    )
    scored = ScoredModule(MODULE, scores_of(heuristic), equal["num_questions"])
    longer, shorter = np.zeros((2, architecture.num_params), np.float32)
    longer[0:21:3], shorter[0:21:3] = 1.0, -1.0
    candidates = np.stack([policy.weights, longer, 3 * longer, shorter])
    rewards = candidate_rewards(host, policy, candidates, [scored], bitcode, "spill_cost")[:, 0]
    # All the same priority is what the reference of that name gives; scaling an order does not change it.
    assert rewards[0] == pytest.approx(-np.log((equal["spill_cost"] + 1) / (heuristic["spill_cost"] + 1)))
    assert rewards[1] == rewards[2]
    assert len(set(rewards.tolist())) == 3
