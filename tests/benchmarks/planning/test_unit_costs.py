"""Unit costs and real generations, measured on real compiles of sample modules."""

import hashlib

import numpy as np
import pytest

from benchmarks.planning.real_generations import fresh_outcomes, watch_generations
from benchmarks.planning.unit_costs import measure_driver, measure_learner, measure_trees
from mlgo.base.config import load_config
from mlgo.corpus.store import Module
from mlgo.evaluate.memory import tree_key
from mlgo.evaluate.outcome import CompileOutcome
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.advisors import ConstantAdvisor
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.pool.trees import ReplayStore
from tests.conftest import REPOSITORY
from tests.fakes.scores import scores

CONFIG = load_config(REPOSITORY / "config/config.yaml", REPOSITORY / "config/presets/tiny.yaml")
ES = CONFIG.es.model_copy(update={"generations": 2, "pairs": 3, "perturbation": 1.0})


@pytest.fixture(scope="module")
def policy():
    names = ("callsite_cost", "caller_basic_block_count")
    scaling = Normalisation(names, np.zeros(2, np.float32), np.full(2, 0.01, np.float32))
    return Policy("inline-size", scaling, Architecture((2, 1)), np.array([-1.0, 0.2, 0.5], np.float32))


@pytest.fixture(scope="module")
def bitcode(sample):
    return {"lz/match.c": sample("lz/match.c"), "json/parser.cpp": sample("json/parser.cpp")}


@pytest.fixture(scope="module")
def modules(bitcode):
    return [
        ScoredModule(
            Module(*key.split("/"), "c", "train", hashlib.sha256(path.read_bytes()).hexdigest()),
            scores(1000, 1000, 1000),
            20,
        )
        for key, path in bitcode.items()
    ]


@pytest.fixture
def store(toolchain, task, settings, tmp_path):
    return ReplayStore(tmp_path / "trees", tree_key(toolchain, task, settings))


def test_driver(toolchain, task, settings, policy, modules, bitcode, leaves_nothing):
    result = compile_under_advice(toolchain, task, bitcode["lz/match.c"], ConstantAdvisor(0), settings)
    with leaves_nothing(descriptors=False):
        cost = measure_driver(policy, ES, modules, bitcode, CompileOutcome(result), 400)
    assert 1e-6 < cost.job_s < 0.1
    assert 0.0 <= cost.message_s < 0.1
    assert 0.0 < cost.send_share < 1.0
    assert cost.job_bytes > policy.weights.nbytes
    assert cost.result_bytes > len(result.answers)


def test_learner(policy, tmp_path):
    generation_s, candidate_s = measure_learner(policy, ES, tmp_path)
    assert generation_s > 0.0
    assert candidate_s >= 0.0


def test_trees(toolchain, settings, policy, modules, bitcode, store):
    cost, outcome = measure_trees(toolchain, settings, ES, policy, modules, bitcode, store, 3)
    assert outcome.result is not None
    assert set(cost.compile_s) == {"lz/match.c", "json/parser.cpp"}
    assert all(seconds > 0.005 for seconds in cost.compile_s.values())
    assert cost.recall_s + cost.recall_question_s > 0.0
    assert 0.0 < cost.load_byte_s < 1e-4
    assert cost.keep_s + cost.keep_byte_s > 0.0


def test_real_generations(toolchain, settings, policy, modules, bitcode, store, tmp_path):
    run = watch_generations(toolchain, settings, ES, policy, modules, bitcode, store, 2, 0, tmp_path)
    assert [len(one.modules) for one in run.generations] == [12, 12]
    first = run.generations[0]
    assert first.modules.tolist() == [0, 1] * 6
    assert first.num_candidates == 6
    assert (first.outcomes >= 0).all()
    assert ((first.compile_s > 0.0) == ~first.recalled).all()
    assert first.seconds >= first.waiting_s > first.driver_s > 0.0
    fresh = fresh_outcomes(run)
    assert {module: (one[0], len(one)) for module, one in fresh.items()} == {0: (True, 12), 1: (True, 12)}
    distinct = sum(map(sum, fresh.values()))
    compiled = sum(int((~one.recalled).sum()) for one in run.generations)
    # The start's outcome is known before the first generation; two workers may meet the same outcome at once.
    assert distinct - 1 <= compiled <= distinct + 4
    assert run.workers_cpu_s > sum(one.compile_s.sum() for one in run.generations) * 0.1
