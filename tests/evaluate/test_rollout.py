"""Many compiles in worker processes, with the real compiler."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import RESULTS, SCORES, TIMINGS, trace_schema, write_rows, write_table
from mlgo.base.names import PolicyName
from mlgo.corpus.store import Module
from mlgo.errors import MlgoError, PolicyError, TrainingError
from mlgo.evaluate import CompileHost, CompileJob, CompileOutcome, check_failures
from mlgo.evaluate.baseline import (
    ScoredModule,
    Scoring,
    baselines,
    score_references,
    self_test_failures,
    with_questions,
)
from mlgo.evaluate.compiles import Quarantine
from mlgo.evaluate.episodes import Episode
from mlgo.evaluate.evaluation import evaluate_policy
from mlgo.evaluate.shipped import EvaluationRun, Linking
from mlgo.evaluate.training import candidate_rewards
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, get_task
from mlgo.host.toolchain import Quirks
from mlgo.learn.es.loop import mean_over_common
from mlgo.objects.measures import scores_of
from tests.conftest import almost
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores

SOURCES = ("codec/base64.c", "graph/paths.cpp")
BROKEN = Module("bad", "broken.c", "c", "test", "")


@pytest.fixture(scope="module")
def host(toolchain, settings):
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        yield host


@pytest.fixture(scope="module")
def modules():
    return [Module(*source.split("/"), "c", "test", "") for source in SOURCES]


@pytest.fixture(scope="module")
def bitcode(modules, sample, tmp_path_factory):
    broken = tmp_path_factory.mktemp("broken") / "broken.bc"
    broken.write_bytes(b"BC\xc0\xde nonsense")
    return {module.key: sample(module.key) for module in modules} | {BROKEN.key: broken}


@pytest.fixture(scope="module")
def baseline(host, task, modules, bitcode, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("objects")
    return score_references(host, task, Quirks(), [*modules, BROKEN], bitcode, Scoring(True, 0.5, 0), tmp_path)


def test_references_have_a_row_per_module_and_advisor(baseline, modules, tmp_path):
    assert [(row["module"], row["advisor"]) for row in baseline.scores] == [
        (module.name, advisor) for module in [*modules, BROKEN] for advisor in get_task("inline-size").references.names
    ]
    write_rows(tmp_path / "scores.parquet", baseline.scores, SCORES, {})
    write_rows(tmp_path / "timings.parquet", baseline.timings, TIMINGS, {})
    assert len(baseline.timings) == 8


def test_modules_of_training_projects_are_compiled_under_what_training_reads(host, task, modules, bitcode, tmp_path):
    trained = [dataclasses.replace(modules[0], split="train")]
    found = score_references(host, task, Quirks(), trained, bitcode, Scoring(True, 0.5, 0), tmp_path)
    assert [row["advisor"] for row in found.scores] == ["heuristic", "echo"]
    found = score_references(host, task, Quirks(), modules[:1], bitcode, Scoring(False, 0.5, 0), tmp_path)
    assert [row["advisor"] for row in found.scores] == ["heuristic", "echo"]
    assert len(found.trace) > 0


def rows_of(baseline, name):
    return {row["advisor"]: row for row in baseline.scores if row["module"] == name}


def test_references_relate_as_they_must(baseline, modules):
    for module in modules:
        rows = rows_of(baseline, module.name)
        assert rows["heuristic"]["object_sha256"] == rows["echo"]["object_sha256"]
        assert rows["heuristic"]["num_questions"] == 0
        assert rows["echo"]["num_questions"] > 0
        assert rows["never"]["text_bytes"] != rows["heuristic"]["text_bytes"]
        assert rows["random"]["object_sha256"] not in (rows["never"]["object_sha256"], rows["echo"]["object_sha256"])
        assert not any(row["failure"] or row["message"] for row in rows.values())
    for row in rows_of(baseline, "broken.c").values():  # rows that end nothing
        assert (row["failure"], row["text_bytes"], row["object_sha256"]) == ("exit", None, "")
        assert "error" in row["message"]


def failures_of(rows):
    return self_test_failures(pa.Table.from_pylist(rows, schema=SCORES.remove_metadata()))


def test_the_self_test_holds_or_names_the_cause(baseline):
    assert failures_of([row for row in baseline.scores if row["project"] != "bad"]) == []
    (broken,) = failures_of(baseline.scores)
    assert broken["module"] == "bad/broken.c"
    assert broken["cause"].startswith("did not compile")
    rows = [dict(row) for row in baseline.scores if row["module"] == "base64.c"]
    echo = next(row for row in rows if row["advisor"] == "echo")
    echo |= {"object_sha256": almost(echo["object_sha256"]), "message": "the cause", "text_bytes": 99}
    (found,) = failures_of(rows)
    assert found["module"] == "codec/base64.c"
    assert re.fullmatch(r"the cause; text 99 instead of \d+ bytes", found["cause"])


def test_the_size_stop_explains_a_difference(toolchain, settings, task, modules, bitcode, tmp_path):
    tight = settings.model_copy(update={"size_stop_factor": 1.0001})
    with CompileHost(toolchain, "inline-size", tight, 1) as host:
        stopped = score_references(host, task, Quirks(), modules, bitcode, Scoring(True, 0.5, 0), tmp_path)
    found = failures_of(stopped.scores)
    truncated = [row for row in stopped.scores if row["advisor"] == "echo" and row["truncated"]]
    for row in truncated:
        assert row["message"] == "" or "raise compile.size_stop_factor" in row["message"]
    assert len(found) <= len(truncated)


def test_the_trace_is_what_the_heuristic_was_asked(baseline, modules, bitcode, toolchain, task, settings, tmp_path):
    trace = baseline.trace
    features = trace.column_names[4:-1]
    assert len(features) == 38
    assert features[0] == "sroa_savings"
    assert task.default_features[0] not in features
    write_table(tmp_path / "trace.parquet", trace, trace_schema(features), {})
    echo = EchoAdvisor(task.default.feature)
    for module in modules:
        alone = compile_under_advice(
            toolchain, task, bitcode[module.key], echo, settings, with_heuristic_feature=True, record=True
        )
        rows = trace.filter(pa.compute.equal(trace["module"], module.name))
        assert rows["step"].to_pylist() == list(range(alone.num_questions))
        observations = alone.header.scalars(alone.observations)
        assert np.array_equal(np.column_stack([rows[name].to_numpy() for name in features]), observations[:, :38])
        assert rows["answer"].to_numpy().tolist() == observations[:, 38].tolist()
    assert set(trace["module"].to_pylist()) == {module.name for module in modules}


class HidingHost:
    """The host of a compiler that puts its default into the place of another feature, as LLVM 17 to 20 do."""

    HIDDEN = "callee_basic_block_count"

    def __init__(self, host):
        self._host, self.hidden = host, host.hidden

    def compile_all(self, jobs, label=""):
        jobs = list(jobs)
        return [self._spoilt(job, one) for job, one in zip(jobs, self._host.compile_all(jobs, label), strict=True)]

    def _spoilt(self, job, outcome):
        result = outcome.result
        if not job.with_heuristic_feature or not result or not result.observations:
            return outcome
        observations = result.header.scalars(result.observations).copy()
        observations[:, result.header.index(self.HIDDEN)] = observations[:, -1]
        return dataclasses.replace(outcome, result=dataclasses.replace(result, observations=observations.tobytes()))


def test_a_compiler_that_hides_a_feature_is_asked_twice(baseline, host, task, modules, bitcode, tmp_path):
    class Hiding(Quirks):
        default_hides_a_feature = True

    hiding = HidingHost(host)
    once = score_references(hiding, task, Quirks(), modules, bitcode, Scoring(True, 0.5, 0), tmp_path)
    assert set(once.trace[HidingHost.HIDDEN].to_pylist()) == {0, 1}  # what must not be learnt from
    again = score_references(hiding, task, Hiding(), modules, bitcode, Scoring(True, 0.5, 0), tmp_path)
    assert again.trace.equals(baseline.trace)


def test_two_runs_give_the_same_and_failures_no_trace(baseline, host, task, modules, bitcode, tmp_path):
    again, none = (
        score_references(host, task, Quirks(), some, bitcode, Scoring(True, 0.5, 0), tmp_path)
        for some in ([*modules, BROKEN], [BROKEN])
    )
    assert again.scores == baseline.scores
    assert again.trace.equals(baseline.trace)
    assert (none.trace, none.timings) == (None, [])


@pytest.fixture(scope="module")
def policy():
    """Never inlines with these weights; `with_weights` of [.., 1] always does."""
    return linear_policy("inline-size", ["cost_estimate"], [0, -1])


@pytest.fixture(scope="module")
def scored(baseline, modules):
    rows = [(module, rows_of(baseline, module.name)) for module in modules]
    return [ScoredModule(one, scores_of(row["heuristic"]), row["echo"]["num_questions"]) for one, row in rows]


@pytest.mark.parametrize("objective", ["text_bytes", "exec_bytes"])
def test_rewards_of_candidates(objective, host, policy, scored, bitcode, baseline):
    candidates = np.array([[0, -1], [0, 1]], np.float32)
    rewards = candidate_rewards(host, policy, candidates, scored, bitcode, objective)
    assert rewards.shape == (2, 2)
    for column, one in enumerate(scored):
        rows = rows_of(baseline, one.module.name)
        assert rewards[0, column] == pytest.approx(1 - rows["never"][objective] / rows["heuristic"][objective])
    assert not np.array_equal(rewards[0], rewards[1])


def test_a_failed_candidate_is_not_a_number(host, policy, scored, bitcode):
    before = host.num_asked, host.num_compiled
    modules = [ScoredModule(BROKEN, scores(1, 1, 1), 1), scored[0]]
    rewards = candidate_rewards(host, policy, np.array([[0, -1]], np.float32), modules, bitcode, "text_bytes")
    assert (host.num_asked, host.num_compiled) == (before[0] + 2, before[1] + 2)
    assert np.isnan(rewards[0, 0])
    assert np.isfinite(rewards[0, 1])


def test_a_module_that_always_fails_ends_in_quarantine_and_harms_no_candidate(host, policy, scored, bitcode):
    quarantine = Quarantine(4)
    candidates = np.array([[0, -1], [0, 1]], np.float32)
    for _ in range(2):
        assert BROKEN.key not in quarantine
        modules = [ScoredModule(BROKEN, scores(1, 1, 1), 1), scored[0]]
        rewards = candidate_rewards(host, policy, candidates, modules, bitcode, "text_bytes", quarantine)
        np.testing.assert_array_equal(mean_over_common(rewards), rewards[:, 1])
    assert BROKEN.key in quarantine
    assert scored[0].module.key not in quarantine
    (row,) = quarantine.rows()
    assert (row["module"], row["failures"], row["compiles"]) == (BROKEN.key, 4, 4)
    assert row["reason"].startswith("exit: the compiler ended with status 1")


@pytest.fixture
def run(host, scored, bitcode):
    modules = [*(one.module for one in scored), BROKEN]
    return EvaluationRun(host, modules, (), bitcode, Linking(Path(), 60.0, 1), Path())


def test_evaluation_rows(run, policy, scored, baseline, tmp_path):
    evaluation = evaluate_policy(run, policy, PolicyName("bc", 3), scored, 0.0)
    write_rows(tmp_path / "results.parquet", evaluation.results, RESULTS, {})
    write_rows(tmp_path / "timings.parquet", evaluation.timings, TIMINGS, {})
    assert evaluation.functions == []  # this task allocates no registers
    for row, one in zip(evaluation.results, scored, strict=True):
        assert (row["policy"], row["seed"], row["num_inlined"]) == ("bc", 3, 0)
        assert row["text_bytes"] == rows_of(baseline, one.module.name)["never"]["text_bytes"]
        assert row["baseline_text_bytes"] == one.scores["text_bytes"]
    always = evaluate_policy(run, policy.with_weights(np.array([0, 1])), PolicyName("x", 0), scored, 0.0)
    assert all(row["num_inlined"] == row["num_questions"] > 0 for row in always.results)


def test_modules_in_another_language_are_left_to_the_heuristic(run, policy, scored):
    assert {one.module.language for one in scored} == {"c"}
    of_c, of_cpp = (dataclasses.replace(policy, origin={"languages": [one]}) for one in ("c", "c++"))
    left = evaluate_policy(run, of_cpp, PolicyName("bc", 0), scored, 0.0).results
    for row, one in zip(left, scored, strict=True):
        assert (row["text_bytes"], row["num_questions"]) == (one.scores["text_bytes"], 0)
    asked = [
        evaluate_policy(run, one, PolicyName("bc", 0), scored, 0.0, in_every_language=everywhere).results
        for one, everywhere in ((of_cpp, True), (of_c, False), (policy, False))
    ]
    assert asked[0] == asked[1] == asked[2]
    assert all(row["num_questions"] > 0 for row in asked[0])


def test_evaluation_with_failures(run, policy, scored):
    both = [scored[0], ScoredModule(BROKEN, scores(1, 1, 1), 1)]
    evaluation = evaluate_policy(run, policy, PolicyName("bc", 0), both, 0.5)
    rows = evaluation.results
    assert [row["failure"] for row in rows] == ["", "exit"]
    assert rows[1]["text_bytes"] is None
    assert rows[1]["num_inlined"] is None
    assert len(evaluation.timings) == 1
    with pytest.raises(MlgoError, match=r"1 of 2 .*evaluate\.max_failed_share allows \(0\.4\).*bad/broken\.c: exit"):
        evaluate_policy(run, policy, PolicyName("bc", 0), both, 0.4)


def test_outcomes_keep_the_order_of_the_jobs(toolchain, settings, bitcode, modules):
    jobs = [CompileJob(key, bitcode[key], ConstantAdvisor(i % 2)) for i in range(4) for key in sorted(bitcode)]
    with CompileHost(toolchain, "inline-size", settings, 2) as host:
        outcomes = host.compile_all(jobs)
    digests = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        digest = outcome.result.object_sha256 if outcome.result else outcome.failure
        assert digests.setdefault((job.module, job.advisor), digest) == digest
    assert len(set(digests.values())) == 5  # two modules under two advisors, and the failure


def test_a_policy_that_does_not_fit_is_the_callers_mistake(host, bitcode, modules):
    with pytest.raises(PolicyError, match="no_such"):
        bad = linear_policy("inline-size", ["no_such"], [0, 0])
        host.compile_all([CompileJob("m", bitcode[modules[0].key], bad)])
    (good,) = host.compile_all([CompileJob("m", bitcode[modules[0].key], None)])
    assert good.result is not None


def test_shares_of_failures():
    good, bad = CompileOutcome(object()), CompileOutcome(None, "exit", "why")  # type: ignore[arg-type]
    check_failures(["a", "b"], [good, bad], 0.5, "x")
    check_failures([], [], 0.0, "x")
    with pytest.raises(MlgoError, match=r"2 of 3 .*max_share allows \(0\.5\).*b: exit: why"):
        check_failures(["a", "b", "c"], [good, bad, bad], 0.5, "max_share")


def test_modules_by_their_questions():
    modules = [ScoredModule(BROKEN, scores(1, 1, 1), n) for n in (0, 1, 10, 11)]
    assert [one.num_questions for one in with_questions(modules, 10, "training")] == [1, 10]
    assert [one.num_questions for one in with_questions(modules, 11, "training", min_questions=10)] == [10, 11]
    with pytest.raises(TrainingError, match="no training module asks between 1 and 10 questions"):
        with_questions(modules[:1], 10, "training")
    with pytest.raises(TrainingError, match=r"between 12 and 20 .* raise es\.max_questions or lower train\.min_q"):
        with_questions(modules, 20, "training", "es", 12)


def test_rewards_of_episodes_by_hand():
    sizes = baselines([ScoredModule(BROKEN, scores(100, 200, 150), 1)], "text_bytes")
    assert sizes == {BROKEN.key: 200.0}
    assert baselines([ScoredModule(BROKEN, scores(100, 200, 150), 1)], "exec_bytes") == {BROKEN.key: 100.0}
    episode = Episode(BROKEN.key, np.zeros((1, 1), np.float16), np.zeros(1, np.uint8), 150.0, "")
    assert episode.reward(sizes[BROKEN.key]) == 0.25
