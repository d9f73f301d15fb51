"""Register eviction with the real compiler; what is expected comes from LLVM's sources and released compilers."""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mlgo.errors import CompilerExit, RemarkError, TooManyQuestions
from mlgo.host.log import Header
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.regalloc import LONGEST
from mlgo.host.tasks.task import ConstantAdvisor, RecordedAdvisor, Responder, get_task

TASK = get_task("regalloc-evict")
SOURCES = ["matrix/lu.cpp", "lz/match.c", "geometry/bvh.cpp", "codec/crc.c"]


@pytest.fixture(scope="session")
def fast(settings):
    return settings.model_copy(update={"objective": "spill_cost", "optimization": "-O2"})


def evicted(toolchain, fast, module, advisor, **options) -> CompileResult:
    return compile_under_advice(toolchain, TASK, module, advisor, fast, **options)


@dataclass(frozen=True)
class LightestAdvisor:
    """Evicts the column whose use_def_density is least."""

    def respond_to(self, header: Header) -> Responder:
        def respond(payload: bytes) -> bytes:
            tensors = header.unpack(payload)
            density = np.where(tensors["mask"] == 1, tensors["use_def_density"], np.inf)
            return np.int64(density.argmin()).tobytes()

        return respond


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


@pytest.mark.parametrize(("task", "advisor"), [(TASK, LightestAdvisor()), (get_task("regalloc-priority"), LONGEST)])
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
        evicted(toolchain, few, optimized(TASK, "matrix/lu.cpp"), LightestAdvisor())


def test_nothing_to_allocate(toolchain, fast, tmp_path):
    module = tmp_path / "empty.ll"
    module.write_text("@x = global i32 1\n")
    result = evicted(toolchain, fast, module, LightestAdvisor())
    assert (result.header, result.num_questions, result.scores["spill_cost"]) == (None, 0, 0)


def test_a_function_that_asks_nothing(toolchain, fast, tmp_path):
    module = tmp_path / "small.ll"
    module.write_text("define i32 @f(i32 %x) {\n  %y = mul i32 %x, 3\n  ret i32 %y\n}\n")
    result = evicted(toolchain, fast, module, LightestAdvisor())
    assert result.contexts == (("f", 0),)
    assert result.scores["spill_cost"] == 0


def test_remarks_that_are_not_there(script, optimized, toolchain, fast):
    """A clang that makes objects but takes no note of remarks."""
    zig = " ".join(toolchain.back_end[:2])
    text = (
        f'for a; do shift; case "$a" in -f*optimization-record*) ;; *) set -- "$@" "$a";; esac; done; exec {zig} "$@"'
    )
    deaf = replace(toolchain, binary=Path(script(text)), is_zig=False)
    with pytest.raises(RemarkError, match="wrote no remarks"):
        compile_plain(deaf, optimized(TASK, "lz/match.c"), fast, task=TASK)
