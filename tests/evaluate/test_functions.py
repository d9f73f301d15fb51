"""Functions as rows and as episodes, with the real compiler."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import FUNCTIONS, write_rows
from mlgo.base.names import PolicyName
from mlgo.corpus.store import Module
from mlgo.evaluate.baseline import ScoredModule, function_costs, function_rows, load_function_costs
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.episodes import episode, function_episodes
from mlgo.evaluate.evaluation import evaluate_policy
from mlgo.evaluate.shipped import EvaluationRun, Linking
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import get_task
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.policy.policy import ExploringAdvisor
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores
from tests.host.test_regalloc_real import fast, optimized  # noqa: F401

TASK = get_task("regalloc-evict")
MODULE = Module("geometry", "bvh.cpp", "c++", "train", "a" * 64)
POLICY = linear_policy(TASK.name, ["use_def_density", "progress"], [-3, 0, 0, 0, 0, 0])


@pytest.fixture(scope="module")
def compiles(toolchain, fast, optimized):  # noqa: F811
    """A module plain, and under a policy that explores."""
    bitcode = optimized("geometry/bvh.cpp")
    advisor = ExploringAdvisor(POLICY, 1.0, 0.0, 3)
    return (
        compile_plain(toolchain, bitcode, fast, task=TASK),
        compile_under_advice(toolchain, TASK, bitcode, advisor, fast, record=True),
    )


def test_rows_hold_all_costs_and_questions(compiles, tmp_path):
    plain, explored = compiles
    rows = [*function_rows(MODULE, "heuristic", plain), *function_rows(MODULE, "explorer", explored)]
    asked = [(row["function"], row["num_questions"]) for row in rows if row["num_questions"]]
    assert asked == [(name, count) for name, count in explored.contexts if count]
    assert len(asked) > 1
    write_rows(tmp_path / "functions.parquet", rows, FUNCTIONS, {})
    for advisor, result in (("heuristic", plain), ("explorer", explored)):
        costs = load_function_costs(tmp_path, SPILL_COST, advisor)[MODULE.key]
        assert {name: cost for name, cost in costs.items() if cost} == {
            one.function: SPILL_COST.of_function(one) for one in result.spills
        }
        assert sum(costs.values()) == pytest.approx(result.scores["spill_cost"])
    assert load_function_costs(tmp_path, SPILL_COST, "nobody") == {}
    assert function_rows(MODULE, "heuristic", None) == []  # a failed compile


def test_evaluation_tells_functions(toolchain, fast, optimized):  # noqa: F811
    bitcode = optimized("geometry/bvh.cpp")
    result = compile_under_advice(toolchain, TASK, bitcode, POLICY, fast)
    assert result.scores["spill_cost"]
    scored = ScoredModule(MODULE, scores(1, 1, 1, 1.0), result.num_questions)
    with CompileHost(toolchain, TASK.name, fast, 1) as host:
        run = EvaluationRun(host, [MODULE], (), {MODULE.key: bitcode}, Linking(Path(), 60.0, 1), Path())
        evaluation = evaluate_policy(run, POLICY, PolicyName("es", 4), [scored], 0.0)
    assert evaluation.functions == function_rows(MODULE, "es-s4", result)
    assert evaluation.results[0]["spill_cost"] == result.scores["spill_cost"]
    costs = function_costs(pa.Table.from_pylist(evaluation.functions, FUNCTIONS), SPILL_COST)
    assert sum(costs["es-s4"][MODULE.key].values()) == pytest.approx(result.scores["spill_cost"])


def test_episodes_of_functions_share_what_a_compile_cost(compiles):
    plain, explored = compiles
    heuristic = {one.function: SPILL_COST.of_function(one) for one in plain.spills}
    whole = episode(MODULE.key, explored, POLICY, "spill_cost")
    parts = function_episodes(MODULE.key, explored, POLICY, SPILL_COST, heuristic)
    assert [(one.function, len(one.answers)) for one in parts] == [pair for pair in explored.contexts if pair[1]]
    assert np.array_equal(np.concatenate([one.inputs for one in parts]), whole.inputs)
    assert np.array_equal(np.concatenate([one.answers for one in parts]), whole.answers)
    # Functions that were not asked about cost what they cost before, so all changes add up to the whole one.
    change = sum(one.score - plain.scores["spill_cost"] for one in parts)
    assert change == pytest.approx(explored.scores["spill_cost"] - plain.scores["spill_cost"])
    assert change != 0.0
    changed = parts[np.argmax([abs(one.score - plain.scores["spill_cost"]) for one in parts])]
    expected = -np.log((changed.score + 1.0) / (plain.scores["spill_cost"] + 1.0))
    assert changed.reward(plain.scores["spill_cost"], 1.0) == pytest.approx(expected)
