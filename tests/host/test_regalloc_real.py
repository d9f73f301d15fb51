"""Register allocation with the real compiler; what is expected comes from LLVM's sources and released compilers."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo.errors import CompilerExit, RemarkError, TooManyQuestions
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.regalloc import LIGHTEST, LONGEST
from mlgo.host.tasks.task import ConstantAdvisor, RecordedAdvisor, Setting, get_task

TASK, PRIORITY = get_task("regalloc-evict"), get_task("regalloc-priority")
SOURCES = ["matrix/lu.cpp", "lz/match.c", "geometry/bvh.cpp", "codec/crc.c"]


@pytest.fixture(scope="session")
def fast(settings):
    return settings.model_copy(update={"objective": "spill_cost", "optimization": "-O2"})


def evicted(toolchain, fast, module, advisor, **options) -> CompileResult:
    return compile_under_advice(toolchain, TASK, module, advisor, fast, **options)


@pytest.mark.parametrize("source", SOURCES)
def test_code_from_optimized_modules_is_what_the_whole_compile_gives(source, optimized, toolchain, fast, tmp_path):
    module = optimized(TASK, source)
    whole = compile_plain(toolchain, module.with_suffix(".plain.bc"), fast)
    code = compile_plain(toolchain, module, fast, task=TASK)
    assert code.object_sha256 == whole.object_sha256
    assert whole.spills is None
    assert code.spills is not None


def test_costs_are_those_of_a_yaml_parser(optimized, toolchain, fast, tmp_path):
    yaml = pytest.importorskip("yaml")

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!Missed", lambda loader, node: loader.construct_mapping(node, deep=True))
    module, record = optimized(TASK, "geometry/bvh.cpp"), tmp_path / "r.yaml"
    result = compile_plain(toolchain, module, fast, task=TASK)
    options = ["-foptimization-record-passes=regalloc", f"-foptimization-record-file={record}"]
    command = [*toolchain.back_end, "-O2", "-Xclang", "-disable-llvm-passes", "-fsave-optimization-record", *options]
    subprocess.run([*command, "-x", "ir", module, "-c", "-o", tmp_path / "m.o"], check=True, capture_output=True)
    costs = {"Reloads": 4.0, "FoldedReloads": 4.0, "Spills": 1.0, "FoldedSpills": 1.0, "Copies": 0.2}
    total = 0.0
    for remark in yaml.load_all(record.read_text(), Loader):
        if remark["Name"] == "SpillReloadCopies":
            values = {key: value for arg in remark["Args"] for key, value in arg.items()}
            total += sum(weight * float(values.get(f"Total{name}Cost", 0)) for name, weight in costs.items())
    assert total > 0
    assert result.scores["spill_cost"] == pytest.approx(total)


@pytest.mark.parametrize(("task", "advisor"), [(TASK, LIGHTEST), (PRIORITY, LONGEST)])
def test_functions_are_contexts_and_answers_can_be_given_again(
    task, advisor, optimized, toolchain, fast, leaves_nothing
):
    module = optimized(task, "matrix/lu.cpp")
    with leaves_nothing():
        first = compile_under_advice(toolchain, task, module, advisor, fast, record=True)
        again = compile_under_advice(toolchain, task, module, RecordedAdvisor(first.answers), fast)
        known = compile_under_advice(toolchain, task, module, advisor, fast, known=first.answer_prefix())
    assert first.num_questions > 0
    assert first.contexts == again.contexts == known.contexts
    assert len({name for name, _ in first.contexts}) > 1
    assert first.object_sha256 == again.object_sha256 == known.object_sha256
    assert first.spills == again.spills == known.spills


def test_no_answer_can_crash_the_compiler(optimized, toolchain, fast, leaves_nothing):
    module = optimized(TASK, "matrix/lu.cpp")
    with leaves_nothing():
        for value in (0, 5, -1, 77):
            result = evicted(toolchain, fast, module, ConstantAdvisor(value))
            assert result.num_questions > 0
            if value in (-1, 77):
                assert result.num_repaired_answers == result.num_questions


def test_illegal_answers_do_crash_it_without_the_guard(optimized, toolchain, fast):
    unguarded = replace(TASK, guard=None)
    with pytest.raises(CompilerExit, match=r"signal 11|status 139"):
        compile_under_advice(toolchain, unguarded, optimized(TASK, "matrix/lu.cpp"), ConstantAdvisor(77), fast)


def test_a_limit_of_questions(optimized, toolchain, fast, leaves_nothing):
    few = fast.model_copy(update={"max_questions": 2})
    with leaves_nothing(), pytest.raises(TooManyQuestions, match=r"compile\.max_questions \(2\)"):
        evicted(toolchain, few, optimized(TASK, "matrix/lu.cpp"), LIGHTEST)


@pytest.mark.parametrize(
    ("text", "contexts"),
    [
        ("@x = global i32 1\n", ()),
        ("define i32 @f(i32 %x) {\n  %y = mul i32 %x, 3\n  ret i32 %y\n}\n", (("f", 0),)),
    ],
    ids=["no function", "no question"],
)
def test_nothing_to_allocate(text, contexts, toolchain, fast, tmp_path):
    (module := tmp_path / "small.ll").write_text(text)
    result = evicted(toolchain, fast, module, LIGHTEST)
    assert (result.header is None, result.contexts) == (not contexts, contexts)
    assert (result.num_questions, result.scores["spill_cost"]) == (0, 0)


def test_remarks_that_are_not_there(script, optimized, toolchain, fast):
    """A clang that makes objects but takes no note of remarks."""
    zig = " ".join(toolchain.back_end[:2])
    text = (
        f'for a; do shift; case "$a" in -f*optimization-record*) ;; *) set -- "$@" "$a";; esac; done; exec {zig} "$@"'
    )
    deaf = replace(toolchain, binary=Path(script(text)), is_zig=False)
    with pytest.raises(RemarkError, match="wrote no remarks"):
        compile_plain(deaf, optimized(TASK, "lz/match.c"), fast, task=TASK)


@pytest.fixture(scope="module")
def module(optimized) -> Path:
    """Bitcode with some spills."""
    return optimized(PRIORITY, "matrix/lu.cpp")


@pytest.fixture(scope="module")
def queued(toolchain, fast, module) -> Callable[..., CompileResult]:
    return lambda advisor, **options: compile_under_advice(toolchain, PRIORITY, module, advisor, fast, **options)


def test_bad_answers_are_repaired(queued, leaves_nothing):
    """Answers that no unsigned integer can hold, in turn."""
    values = np.array([np.nan, 1e30, -1.0, np.inf, -np.inf], np.float32)
    with leaves_nothing():
        result = queued(RecordedAdvisor(values.tobytes() * 10_000))
    assert result.num_questions > 100
    assert result.num_repaired_answers == result.num_questions
    assert np.unique(np.frombuffer(result.answers, np.float32)).tolist() == [0.0, 2.0**24]


def test_weights_are_finite_and_counted(toolchain, fast, module, queued):
    """Without the guard the same observations come, infinite where it puts another number."""
    header = (guarded := queued(LONGEST, record=True)).header
    raw = compile_under_advice(toolchain, replace(PRIORITY, guard=None), module, LONGEST, fast, record=True)
    weights = [
        np.frombuffer(one.observations, np.uint8).reshape(-1, header.payload_bytes)[:, header.offset("weight") :]
        for one in (guarded, raw)
    ]
    finite, sent = (np.ascontiguousarray(one[:, :4]).view(np.float32)[:, 0] for one in weights)
    unspillable = np.isinf(sent)
    assert unspillable.any()
    assert not np.isnan(sent).any()
    assert guarded.num_repaired_observations == unspillable.sum()
    assert (finite == np.where(unspillable, np.float32(1e6), sent)).all()
    assert finite[~unspillable].max() < 1e5


def test_priorities_change_the_code(toolchain, fast, module, queued):
    plain = compile_plain(toolchain, module, fast, task=PRIORITY)
    longest, equal, drawn = (
        queued(advisor)
        for advisor in (LONGEST, ConstantAdvisor(0), PRIORITY.references.advisors["random"](Setting(0, "x", 0.5, "")))
    )
    assert len({one.object_sha256 for one in (plain, longest, equal, drawn)}) == 4
    assert len({one.scores["spill_cost"] for one in (plain, longest, equal, drawn)}) == 4


def test_only_the_order_counts_down_to_integers(queued):
    """Whole numbers in the same order give the same code; the compiler drops what is behind the point."""
    first = queued(LONGEST)
    answers = np.frombuffer(first.answers, np.float32)
    ranks = np.unique(np.floor(answers), return_inverse=True)[1].astype(np.float32)
    assert len(np.unique(ranks)) > 50
    assert queued(RecordedAdvisor(ranks.tobytes())).object_sha256 == first.object_sha256
    below_the_point = (ranks / (ranks.max() + 1)).astype(np.float32)
    assert queued(RecordedAdvisor(below_the_point.tobytes() * 2)).object_sha256 == (
        queued(ConstantAdvisor(0)).object_sha256
    )
