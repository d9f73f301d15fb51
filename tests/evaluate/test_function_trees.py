"""Functions as rows and as episodes, and trees of them in front of the real compiler."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import FUNCTIONS, read_table, write_rows
from mlgo.base.names import PolicyName
from mlgo.base.seeding import generator
from mlgo.corpus.store import Module
from mlgo.errors import ReplayMismatch
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.baseline import ScoredModule, function_costs, function_rows
from mlgo.evaluate.episodes import episode, function_episodes
from mlgo.evaluate.evaluation import evaluate_policy
from mlgo.evaluate.shipped import EvaluationRun, Linking
from mlgo.evaluate.training import candidate_rewards
from mlgo.evaluate.worker import tree_key
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.regalloc import DENSITY, FIRST_LEGAL, LIGHTEST
from mlgo.host.tasks.task import ConstantAdvisor, RecordedAdvisor
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.policy.policy import ExploringAdvisor, Policy
from mlgo.pool.tree_store import ReplayStore
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores
from tests.host.test_regalloc_real import TASK

pytestmark = pytest.mark.slow

SOURCES = ["matrix/lu.cpp", "lz/match.c"]
FEATURES = (DENSITY, "is_hint", "nr_broken_hints", "liverange_size", "progress")


@pytest.fixture(scope="module")
def modules(optimized):
    return {source: optimized(TASK, source) for source in SOURCES}


@pytest.fixture
def store(toolchain, fast, tmp_path):
    return ReplayStore(tmp_path / "trees", tree_key(toolchain, TASK, fast))


def policy() -> Policy:
    """A linear policy that differs a little from *evict the lightest*."""
    return linear_policy(TASK.name, FEATURES, [-1.0, *[0.0] * TASK.actions.num_inputs(len(FEATURES))])


def candidates(count: int) -> np.ndarray:
    """Weights around those of the policy; the second half repeats the first."""
    start, rng = policy().weights, generator(3, "candidates")
    some = [start + 0.05 * rng.standard_normal(len(start)) for _ in range(count // 2)]
    return np.array([*some, *some], np.float32)


def sha256(source: str) -> str:
    return f"{SOURCES.index(source):064x}"


def scored(source: str) -> ScoredModule:
    return ScoredModule(Module("p", source, "c", "train", sha256(source)), scores(1, 1, 1, 10.0), 1)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_rewards_are_bit_identical_with_fewer_compiles(toolchain, fast, modules, store, num_workers, leaves_nothing):
    weights, some = candidates(6), [scored(source) for source in SOURCES]
    bitcode = {one.module.key: modules[one.module.name] for one in some}
    rewards = []
    with leaves_nothing():
        for trees in (None, store):
            with CompileHost(toolchain, TASK.name, fast, num_workers, trees) as host:
                arguments = (host, policy(), weights, some, bitcode, "spill_cost")
                rewards.append([candidate_rewards(*arguments) for _ in range(2)])
    assert np.isfinite(rewards[0]).all()
    np.testing.assert_array_equal(rewards[0], rewards[1])
    assert len(np.unique(rewards[0])) > len(SOURCES)
    assert host.num_asked == 24
    assert host.num_asked - host.num_compiled >= 12  # all of the second time, at least
    assert 0 < host.num_known_questions < host.num_questions


def test_costs_of_functions_that_were_never_compiled_together(toolchain, fast, modules, store):
    """Half of the functions as one policy has them, half as another: known at once, and what a compile gives."""
    one, other = LIGHTEST, FIRST_LEGAL
    source, module = SOURCES[0], modules[SOURCES[0]]
    jobs = [CompileJob(source, module, advisor, sha256=sha256(source), record=True) for advisor in (one, other)]
    with CompileHost(toolchain, TASK.name, fast, 1, store) as host:
        results = [outcome.result for outcome in host.compile_all(jobs)]
    assert results[0].contexts != results[1].contexts or results[0].answers != results[1].answers
    trees = store.load(sha256(source))
    walks = [trees.walk(advisor.decide_for(trees.header)) for advisor in (one, other)]
    mixed = [walks[place % 2][place] for place in range(len(trees.by_context))]
    expected = tuple(costs for walk in mixed for costs in walk.leaf.spills)
    assert expected not in [result.spills for result in results]
    answers = b"".join(walk.answers.tobytes() for walk in mixed)
    path = trees.path_of(mixed)
    for known in (None, path):
        found = compile_under_advice(toolchain, TASK, module, RecordedAdvisor(answers), fast, known=known)
        assert (found.spills, found.answers) == (expected, answers)
    turned = replace(path, contexts=path.contexts[::-1])
    with pytest.raises(ReplayMismatch, match="context 0 is"):
        compile_under_advice(toolchain, TASK, module, RecordedAdvisor(answers), fast, known=turned)


def test_recorded_compiles_are_whole_though_known_questions_are_answered_in_advance(toolchain, fast, modules, store):
    """Observations, answers and costs, as guarded, of compiles of which more and more is known; sizes are compiled."""
    source, module = SOURCES[0], modules[SOURCES[0]]
    plain = [policy().with_weights(weights) for weights in candidates(4)]
    with CompileHost(toolchain, TASK.name, fast, 1, store) as host:
        for advisor in plain:
            expected = compile_under_advice(toolchain, TASK, module, advisor, fast, record=True)
            (outcome,) = host.compile_all([CompileJob(source, module, advisor, sha256=sha256(source), record=True)])
            found = outcome.result
            assert not outcome.recalled
            assert found.num_repaired_observations == expected.num_repaired_observations
            same = {"seconds": 0.0}
            assert replace(found, **same) == replace(expected, **same)
            assert outcome.score("spill_cost") == expected.scores["spill_cost"]
            assert outcome.score("text_bytes") == expected.scores["text_bytes"]
        job = CompileJob(source, module, plain[0], sha256=sha256(source), costs_only=True)
        (recalled,) = host.compile_all([job])
        first = compile_under_advice(toolchain, TASK, module, plain[0], fast)
    assert (recalled.recalled, recalled.reason, recalled.result.object_sha256) == (True, "", "")
    assert (recalled.result.spills, recalled.result.num_questions) == (first.spills, first.num_questions)
    assert recalled.score("spill_cost") == first.scores["spill_cost"]
    for size in ("text_bytes", "exec_bytes"):
        with pytest.raises(ValueError, match=f"{size} of this compile is not known"):
            recalled.score(size)
    assert 0 < host.num_known_questions < host.num_questions


def test_a_known_question_right_after_unknown_ones(toolchain, fast, modules):
    """Its answer goes out at once, though it comes in one piece with the end of the function before."""
    module, advisor = modules[SOURCES[0]], LIGHTEST
    first = compile_under_advice(toolchain, TASK, module, advisor, fast, record=True)
    whole = first.answer_prefix().contexts
    answers = len(first.answers) // first.num_questions
    for every in (2, 3):
        begun = [replace(one, checks=one.checks[:1], answers=one.answers[:answers], is_whole=False) for one in whole]
        partly = [one if i % every == 0 else start for i, (one, start) in enumerate(zip(whole, begun, strict=True))]
        again = compile_under_advice(toolchain, TASK, module, advisor, fast, known=AnswerPrefix(tuple(partly)))
        assert (again.object_sha256, again.answers) == (first.object_sha256, first.answers)
        assert again.spills == first.spills


def test_illegal_answers_are_left_to_the_guard(toolchain, fast, modules, store):
    """They would crash the compiler if they were sent ahead."""
    module, illegal = modules[SOURCES[1]], ConstantAdvisor(77)
    expected = compile_under_advice(toolchain, TASK, module, illegal, fast)
    assert expected.num_repaired_answers == expected.num_questions > 0
    job = CompileJob("m", module, illegal, sha256=sha256(SOURCES[1]))
    with CompileHost(toolchain, TASK.name, fast, 1, store) as host:
        for _ in range(2):
            (outcome,) = host.compile_all([job])
            assert replace(outcome.result, seconds=0.0) == replace(expected, seconds=0.0)


MODULE = Module("geometry", "bvh.cpp", "c++", "train", "a" * 64)
POLICY = linear_policy(TASK.name, ["use_def_density", "progress"], [-3, 0, 0, 0, 0, 0])


@pytest.fixture(scope="module")
def compiles(toolchain, fast, optimized):
    """A module plain, and under a policy that explores."""
    bitcode = optimized(TASK, "geometry/bvh.cpp")
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
    known = function_costs(read_table(tmp_path / "functions.parquet", FUNCTIONS), SPILL_COST)
    assert list(known) == ["heuristic", "explorer"]
    for advisor, result in (("heuristic", plain), ("explorer", explored)):
        costs = known[advisor][MODULE.key]
        assert {name: cost for name, cost in costs.items() if cost} == {
            one.function: SPILL_COST.of_function(one) for one in result.spills
        }
        assert sum(costs.values()) == pytest.approx(result.scores["spill_cost"])
    assert function_rows(MODULE, "heuristic", None) == []  # a failed compile


def test_evaluation_tells_functions(toolchain, fast, optimized):
    bitcode = optimized(TASK, "geometry/bvh.cpp")
    result = compile_under_advice(toolchain, TASK, bitcode, POLICY, fast)
    assert result.scores["spill_cost"]
    one = ScoredModule(MODULE, scores(1, 1, 1, 1.0), result.num_questions)
    with CompileHost(toolchain, TASK.name, fast, 1) as host:
        run = EvaluationRun(host, [MODULE], (), {MODULE.key: bitcode}, Linking(Path(), 60.0, 1), Path())
        evaluation = evaluate_policy(run, POLICY, PolicyName("es", 4), [one], 0.0)
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
