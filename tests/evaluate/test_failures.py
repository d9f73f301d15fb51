"""Modules that keep failing."""

import json

import pytest

from mlgo.base.artifacts import FAILURES, read_table, write_rows
from mlgo.errors import NothingCompiled, TrainingError
from mlgo.evaluate.compiles import Quarantine
from mlgo.evaluate.worker import CompileOutcome
from mlgo.host.session import CompileResult
from tests.fakes.scores import scores

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
