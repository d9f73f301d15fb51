"""What trainings share: questions of some languages, compiles around a policy, and modules that keep failing."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import FAILURES, MODULES, SCORES, VOCABULARY, read_table, trace_schema, write_rows
from mlgo.corpus.store import Module
from mlgo.errors import NothingCompiled, TrainingError
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.compiles import Quarantine
from mlgo.evaluate.training import exploring_jobs, trace_of_languages, training_modules, validation_weights
from mlgo.evaluate.worker import CompileOutcome
from mlgo.host.session import CompileResult
from mlgo.policy.policy import ExploringAdvisor
from mlgo.policy.vocabulary import build_vocabulary
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores

VALUES = {  # of the one feature, by project, module, language and split
    ("a", "x.c", "c", "train"): [9, 1, 5],
    ("a", "y.cc", "c++", "train"): [100, 300],
    ("b", "y.cc", "c++", "validation"): [700],
    ("b", "z.c", "c", "validation"): [40, 30],
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = []
    for project, module, language, split in VALUES:
        row = {field.name: 0 if pa.types.is_integer(field.type) else "" for field in MODULES}
        row |= {"project": project, "module": module, "language": language, "split": split}
        rows.append(row | {"bitcode_sha256": f"{project}/{module}"})
    write_rows(tmp_path / "modules.parquet", rows, MODULES, {})
    return tmp_path


@pytest.fixture
def trace() -> pa.Table:
    rows = [
        {"project": project, "module": module, "context": "", "step": step, "f": value, "answer": step % 2}
        for (project, module, _, _), values in VALUES.items()
        for step, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, trace_schema(["f"]).remove_metadata())


@pytest.fixture
def vocabulary() -> pa.Table:
    return build_vocabulary({"f": pa.array([9, 1, 5, 100, 300]).to_numpy()}, 3)


def test_a_language_has_its_own_questions_and_quantiles(corpus, trace, vocabulary):
    left, found = trace_of_languages(trace, vocabulary, corpus, ["c"])
    assert left["f"].to_pylist() == [9, 1, 5, 40, 30]  # validation modules too, for the clone
    assert left.schema == trace.schema
    assert found.to_pylist() == [{"feature": "f", "quantiles": [1.0, 5.0, 9.0], "num_distinct": 3}]
    left, found = trace_of_languages(trace, vocabulary, corpus, ["c++"])
    assert left["f"].to_pylist() == [100, 300, 700]
    assert found["quantiles"].to_pylist() == [[100.0, 100.0, 300.0]]


def test_both_languages_change_nothing(corpus, trace, vocabulary):
    left, found = trace_of_languages(trace, vocabulary, corpus, ["c++", "c"])
    assert left == trace
    assert found == vocabulary
    assert found.schema == VOCABULARY.remove_metadata()


def test_a_language_without_training_questions(corpus, trace, vocabulary):
    with pytest.raises(TrainingError, match="the trace holds no question"):
        trace_of_languages(trace.slice(3), vocabulary, corpus, ["c"])


def test_modules_to_train_and_validate_on(corpus, tmp_path):
    unknown = {"object_sha256": "", "failure": "", "message": "", "truncated": False}
    scores = [
        {"project": project, "module": module, "advisor": advisor, "exec_bytes": 1, "text_bytes": 2, "num_questions": 3}
        for project, module, _, _ in VALUES
        for advisor in ("heuristic", "echo")
    ]
    write_rows(tmp_path / "scores.parquet", [one | unknown for one in scores], SCORES, {"task": "inline-size"})
    for languages, expected in (
        (None, (["a/x.c", "a/y.cc"], ["b/y.cc", "b/z.c"])),
        (["c"], (["a/x.c"], ["b/z.c"])),
        (["c++"], (["a/y.cc"], ["b/y.cc"])),
    ):
        found = training_modules(corpus, tmp_path, "marginal", 1000, 2000, 0, languages)
        assert tuple([one.module.key for one in part] for part in found) == expected
    with pytest.raises(TrainingError, match=r"no c/c\+\+ train module asks between 1 and 2 questions; raise marginal"):
        training_modules(corpus, tmp_path, "marginal", 2, 2000, 0, ["c", "c++"])


def judged(project: str, size: int) -> ScoredModule:
    return ScoredModule(Module(project, f"{size}.c", "c", "validation", ""), scores(size, size, spills=size), 9)


def test_a_project_counts_as_much_as_any_other_and_its_modules_by_size():
    modules = [judged("lua", 100), judged("lua", 300), judged("zip", 50), judged("lua", 600)]
    weights = validation_weights(modules, "text_bytes")
    assert weights.tolist() == pytest.approx([0.2, 0.6, 2.0, 1.2])  # 4 modules, 2 projects; 10, 30, 100 and 60 %
    # lua grows from 1,000 to 1,040 bytes, zip shrinks from 50 to 49.
    rewards = 1.0 - np.array([110, 330, 49, 600]) / [100, 300, 50, 600]
    assert np.mean(weights * rewards) == pytest.approx((-0.04 + 0.02) / 2)


def test_logarithms_of_a_project_count_alike():
    modules = [judged("lua", 100), judged("lua", 300), judged("zip", 50)]
    assert validation_weights(modules, "spill_cost").tolist() == [0.75, 0.75, 1.5]


POLICY, *VARIANTS = (linear_policy("inline-size", ["a"], [i, 0]) for i in range(3))


def explored(name: str, num_questions: int) -> ScoredModule:
    return ScoredModule(Module("p", name, "c", "train", name * 8), scores(1000, 2000, 2000), num_questions)


EXPLORED = [explored("small", 4), explored("middle", 100), explored("large", 2000)]
BITCODE = {one.module.key: Path(one.module.name) for one in EXPLORED}


def planned(modules=EXPLORED, round_number=1):
    return exploring_jobs(POLICY, VARIANTS, modules, BITCODE, (3, 12), 800, 0.1, 1.5, 2.0, 0, "test", round_number)


@pytest.fixture
def jobs():
    return planned()


def of(jobs, name):
    return [job for job in jobs if job.module == f"p/{name}"]


def test_small_modules_are_compiled_more_often(jobs):
    # 800 / 4 = 200, at most 12; 800 / 100 = 8; 800 / 2000 = 0, at least 3.
    assert [len(of(jobs, name)) for name in ("small", "middle", "large")] == [12, 8, 3]
    assert all(job.record and job.sha256 for job in jobs)


def test_first_the_policy_then_its_variants_in_turn(jobs):
    first, *others = of(jobs, "middle")
    assert first.advisor is POLICY
    assert [job.advisor.policy for job in others[:4]] == [VARIANTS[1], VARIANTS[0], VARIANTS[1], VARIANTS[0]]


def test_flips_and_temperatures_stay_within_their_bounds(jobs):
    for name, least in (("small", 0.375), ("middle", 0.015), ("large", 0.00075)):  # 1.5 answers of all
        advisors = [job.advisor for job in of(jobs, name)[1:]]
        assert all(isinstance(advisor, ExploringAdvisor) for advisor in advisors)
        assert all(least <= advisor.flip_share <= max(least, 0.1) for advisor in advisors)
        assert all(0.0 <= advisor.temperature <= 2.0 for advisor in advisors)


def test_the_same_purpose_gives_the_same_plan_and_another_one_another(jobs):
    again, later = planned(), planned(round_number=2)
    luck = [[job.advisor.seed for job in plan if job.advisor is not POLICY] for plan in (jobs, again, later)]
    assert luck[0] == luck[1] != luck[2]
    assert len(set(luck[0])) == len(luck[0])
    assert planned(EXPLORED[1:2]) == of(jobs, "middle")  # whatever else is compiled


GOOD = CompileOutcome(CompileResult(scores(1, 1), "", 0.0)).reason
BAD = CompileOutcome(None, "timeout", "no end within 60 s").reason


def noted(max_failures: int, ends: str) -> Quarantine:
    quarantine = Quarantine(max_failures)
    for end in ends:
        quarantine.note("a/b.c", BAD if end == "x" else GOOD)
    return quarantine


@pytest.mark.parametrize(
    ("ends", "out"),
    [("", False), ("xx", False), ("xxx", True), (".xxx", True), ("...xxx", True), ("....xxx", False), ("...", False)],
)
def test_three_failures_and_half_of_all_compiles(ends, out):
    assert ("a/b.c" in noted(3, ends)) == out


def test_others_are_not_concerned_and_it_goes_on_where_it_was():
    assert "a/c.c" not in noted(1, "xxxx")
    before = noted(3, "x.x")
    after = Quarantine(3, json.loads(json.dumps(before.state())))
    assert after.state() == before.state()
    after.note("a/b.c", BAD)
    assert "a/b.c" in after


def test_a_learner_without_any_compile_hears_of_an_example():
    quarantine = noted(3, "xx")
    quarantine.note("a/a.c", "exit: status 1:\n  out of\n  memory")
    with pytest.raises(NothingCompiled, match=r"^mend it \(for example a/b.c: timeout: no end within 60 s\)$"):
        with quarantine.explaining():
            raise NothingCompiled("mend it")
    for _ in range(2):
        quarantine.note("a/a.c", "exit: status 1:\n  out of\n  memory")
    with pytest.raises(NothingCompiled, match=r"\(for example a/a.c: exit: status 1: out of memory\)$"):
        with quarantine.explaining():
            raise NothingCompiled("all failed")
    with pytest.raises(NothingCompiled, match=r"^nothing to do$"):
        with Quarantine(3).explaining():
            raise NothingCompiled("nothing to do")
    with pytest.raises(TrainingError, match=r"^other$"):  # other errors pass
        with quarantine.explaining():
            raise TrainingError("other")


def test_rows_hold_every_module_with_a_failure(tmp_path):
    quarantine = noted(2, "x.x")
    quarantine.note("a/a.c", BAD)
    quarantine.note("a/good.c", GOOD)
    write_rows(tmp_path / "f.parquet", quarantine.rows(), FAILURES, {})
    reason = "timeout: no end within 60 s"
    assert read_table(tmp_path / "f.parquet", FAILURES).to_pylist() == [
        {"module": "a/a.c", "compiles": 1, "failures": 1, "reason": reason, "quarantined": False},
        {"module": "a/b.c", "compiles": 3, "failures": 2, "reason": reason, "quarantined": True},
    ]
