"""Compiles with the real compiler. What is expected comes from LLVM's sources, its tests and released compilers."""

import errno
import hashlib
import shutil
import subprocess
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base import scratch
from mlgo.base.types import TensorSpec
from mlgo.errors import (
    ArtifactError,
    CompileError,
    CompilerExit,
    CompilerMemory,
    CompileTimeout,
    ObjectError,
    PolicyError,
    ProtocolError,
)
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.host.command_line import words
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.inline import random_inliner
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, RecordedAdvisor, Setting

ECHO = EchoAdvisor("inlining_default")
SOURCES = ["codec/base64.c", "lz/match.c", "calc/parse.c", "json/parser.cpp", "graph/paths.cpp", "geometry/bvh.cpp"]

# LLVM 19 and newer, in wire order: the table of section 2.1 of the fact sheet.
FEATURES = words("""
    sroa_savings sroa_losses load_elimination call_penalty call_argument_setup load_relative_intrinsic
    lowered_call_arg_setup indirect_call_penalty jump_table_penalty case_cluster_penalty
    switch_default_dest_penalty switch_penalty unsimplified_common_instructions num_loops dead_blocks
    simplified_instructions constant_args constant_offset_ptr_args callsite_cost cold_cc_penalty
    last_call_to_static_bonus is_multiple_blocks nested_inlines nested_inline_cost_estimate threshold
    callee_basic_block_count callsite_height node_count nr_ctant_params cost_estimate edge_count caller_users
    caller_conditionally_executed_blocks caller_basic_block_count callee_conditionally_executed_blocks
    callee_users is_callee_avail_external is_caller_avail_external""")


@pytest.fixture
def advised(toolchain, task, settings):
    """Compiles a module under an advisor."""

    def compile_module(module, advisor, settings=settings, **options):
        return compile_under_advice(toolchain, task, module, advisor, settings, **options)

    return compile_module


TWO_CALLS = """
static int helper(int x, int y) { return x * y + (x ^ y); }
int first(int a) { return helper(a, 3) + 1; }
int second(int a, int b) { return helper(a, b) - 1; }
"""

NO_CALLS = "int f(int x) { return x * 3; } int g(int x) { return x - 1; }"
DECIDED = """
static __attribute__((always_inline)) inline int must(int x) { return x * 5; }
static __attribute__((noinline)) int never(int x) { return x * 7; }
int f(int x) { return must(x) + never(x); }
"""

# Each level calls the one below it twice, so inlining everything doubles the code at every level.
TOWER = """
extern void sink(int);
static void l0(int x) { sink(x); sink(x + 1); sink(x * 7); sink(x ^ 5); sink(x - 9); sink(x | 3); }
static void l1(int x) { l0(x); l0(x + 11); }
static void l2(int x) { l1(x); l1(x + 13); }
static void l3(int x) { l2(x); l2(x + 17); }
void top(int x) { l3(x); l3(x + 19); }
"""


@pytest.mark.parametrize("source", SOURCES)
def test_echo_of_the_default_reproduces_the_plain_object(advised, source, sample, toolchain, settings, tmp_path):
    module = sample(source)
    plain = compile_plain(toolchain, module, settings, object_path=tmp_path / "plain.o")
    echo = advised(module, ECHO, with_heuristic_feature=True, object_path=tmp_path / "echo.o")
    assert (tmp_path / "plain.o").read_bytes() == (tmp_path / "echo.o").read_bytes()
    assert echo.object_sha256 == plain.object_sha256
    assert echo.object_sha256 == hashlib.sha256((tmp_path / "echo.o").read_bytes()).hexdigest()
    assert echo.scores == plain.scores
    assert echo.num_questions > 0
    assert not echo.truncated
    assert plain.num_questions == 0
    assert plain.header is None


@pytest.mark.parametrize("more", [[], ["inlining_default"]])
def test_features_and_advice_are_what_llvm_documents(more, advised, sample):
    """The default comes last when asked for."""
    header = advised(sample("lz/match.c"), ConstantAdvisor(0), with_heuristic_feature=bool(more)).header
    assert [spec.name for spec in header.features] == [*FEATURES, *more]
    assert all(spec.dtype == np.int64 and spec.shape == (1,) for spec in header.features)
    assert header.payload_bytes == 8 * (38 + len(more))
    assert header.advice == TensorSpec("inlining_decision", np.dtype(np.int64), (1,))
    assert header.score is None


def test_two_calls_give_two_questions_with_readable_features(advised, bitcode):
    result = advised(bitcode(TWO_CALLS), ConstantAdvisor(0), record=True, with_heuristic_feature=True)
    assert result.contexts == (("", 2),)
    observations = result.header.scalars(result.observations)
    assert observations.shape == (2, 39)

    def column(name):
        return observations[:, result.header.index(name)].tolist()

    assert column("node_count") == [3, 3]  # helper, first, second
    assert column("edge_count") == [2, 2]
    assert column("callee_users") == [2, 2]  # two calls, not visible outside
    assert column("callee_basic_block_count") == [1, 1]
    assert column("caller_basic_block_count") == [1, 1]
    assert sorted(column("nr_ctant_params")) == [0, 1]  # helper(a, 3) has one constant argument
    assert set(column("inlining_default")) <= {0, 1}
    assert result.answers == bytes(16)


@pytest.mark.parametrize("source", [NO_CALLS, DECIDED], ids=["no calls", "forced and forbidden"])
def test_nothing_is_asked_where_nothing_is_to_be_decided(source, advised, bitcode, toolchain, settings):
    module = bitcode(source)
    result = advised(module, ConstantAdvisor(1), record=True)
    assert (result.num_questions, result.answers, result.observations) == (0, b"", b"")
    assert result.header is not None
    assert result.object_sha256 == compile_plain(toolchain, module, settings).object_sha256


@pytest.mark.parametrize("source", ["json/parser.cpp", "lz/match.c"])
def test_advisors_differ_as_they_must(advised, source, sample):
    module = sample(source)

    def run(advisor):
        result = advised(module, advisor)
        decisions = np.frombuffer(result.answers, np.int64)
        assert len(decisions) == result.num_questions
        return result, int(decisions.sum())

    never, num_never = run(ConstantAdvisor(0))
    always, num_always = run(ConstantAdvisor(1))
    some, num_some = run(random_inliner(Setting(0, "x", 0.5, "")))
    assert num_never == 0
    assert num_always == always.num_questions
    assert 0 < num_some < some.num_questions
    assert abs(num_some / some.num_questions - 0.5) < 0.25
    assert always.scores["text_bytes"] > never.scores["text_bytes"]
    assert len({never.object_sha256, always.object_sha256, some.object_sha256}) == 3


def test_a_random_advisor_is_reproducible_and_its_record_replays(advised, sample):
    module = sample("graph/paths.cpp")
    first = advised(module, random_inliner(Setting(7, "m", 0.5, "")), record=True)
    again = advised(module, random_inliner(Setting(7, "m", 0.5, "")), record=True)
    other = advised(module, random_inliner(Setting(8, "m", 0.5, "")))
    replay = advised(module, RecordedAdvisor(first.answers), record=True)
    assert first.answers == again.answers != other.answers
    assert other.observations == b""  # recording is optional
    assert first.object_sha256 == again.object_sha256 == replay.object_sha256
    assert first.observations == replay.observations
    assert len(first.observations) == first.num_questions * 304
    assert replay.answers == first.answers


class Broken:
    """Raises where it should answer."""

    def respond_to(self, header):
        return lambda payload: 1 // 0


@pytest.mark.parametrize(
    ("advisor", "error", "message"),
    [
        (RecordedAdvisor(bytes(8)), PolicyError, "only 1 answers"),
        (EchoAdvisor("no_such_feature"), ProtocolError, "'no_such_feature'"),
        (Broken(), ZeroDivisionError, None),
    ],
)
def test_an_advisor_that_fails_leaves_nothing(advisor, error, message, advised, bitcode, leaves_nothing):
    module = bitcode(TWO_CALLS)
    with leaves_nothing(), pytest.raises(error, match=message):
        advised(module, advisor)


def test_size_stop_is_recorded(advised, bitcode, settings):
    module = bitcode(TOWER)
    tight = settings.model_copy(update={"size_stop_factor": 1.01})
    stopped = advised(module, ConstantAdvisor(1), settings=tight)
    free = advised(module, ConstantAdvisor(1))
    assert stopped.truncated
    assert not free.truncated
    assert stopped.num_questions < free.num_questions
    assert not advised(module, ConstantAdvisor(0), settings=tight).truncated  # what never grows never stops


def test_remarks_count_what_any_answer_but_0_inlined(advised, bitcode, sample, toolchain, task, settings):
    module = bitcode(TWO_CALLS)
    done = task.done_remark
    results = [advised(module, ConstantAdvisor(value), remark=done) for value in (0, 1, 2, -1)]
    assert [one.num_remarks for one in results] == [0, 2, 2, 2]
    never, always, *others = (one.object_sha256 for one in results)
    assert others == [always] * 2 != [never] * 2
    assert not results[1].truncated
    assert advised(module, ConstantAdvisor(1)).object_sha256 == always  # asking for remarks changes nothing
    module = sample("lz/match.c")
    plain = compile_plain(toolchain, module, settings, remark=done)
    echo = advised(module, ECHO, with_heuristic_feature=True, remark=done)
    assert plain.num_remarks == echo.num_remarks == int(np.frombuffer(echo.answers, np.int64).sum()) > 0
    assert plain.object_sha256 == compile_plain(toolchain, module, settings).object_sha256


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: None,
        lambda data: b"",
        lambda data: b"\x00garbage",
        lambda data: data[: len(data) // 2],
        lambda data: data[:8] + bytes(200) + data[208:],
    ],
    ids=["missing", "empty", "garbage", "cut", "flipped"],
)
def test_damaged_bitcode_fails_with_a_reason(
    damage, plain, advised, sample, toolchain, settings, tmp_path, leaves_nothing
):
    module = tmp_path / "damaged.bc"
    if (damaged := damage(sample("lz/match.c").read_bytes())) is not None:
        module.write_bytes(damaged)
    with leaves_nothing(), pytest.raises(CompilerExit, match="error: "):
        compile_plain(toolchain, module, settings) if plain else advised(module, ConstantAdvisor(1))


def test_a_deadline_that_is_too_short(advised, sample, toolchain, settings, leaves_nothing):
    hasty = settings.model_copy(update={"compile_timeout_s": 0.001})
    module = sample("json/parser.cpp")
    with leaves_nothing(), pytest.raises(CompileTimeout):
        compile_plain(toolchain, module, hasty)
    with leaves_nothing(), pytest.raises(CompileError):
        advised(module, ConstantAdvisor(1), settings=hasty)


def test_a_target_whose_objects_are_unknown_is_refused(bitcode, toolchain, settings, leaves_nothing):
    web = type(toolchain)(toolchain.binary, True, toolchain.version, "wasm32-wasi-musl")
    module = bitcode(NO_CALLS)
    with leaves_nothing(), pytest.raises(ObjectError, match="neither ELF nor 64-bit Mach-O nor COFF"):
        compile_plain(web, module, settings)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils not installed")
@pytest.mark.parametrize("source", SOURCES)
def test_sizes_agree_with_readelf_and_gnu_size(source, sample, toolchain, settings, tmp_path):
    path = tmp_path / "module.o"
    result = compile_plain(toolchain, sample(source), settings, object_path=path)
    sizes, listing = (
        subprocess.run([*command, path], capture_output=True, text=True, check=True).stdout.splitlines()
        for command in (["size"], ["readelf", "-S", "-W"])
    )
    executable = text = 0
    for line in listing:
        columns = line.partition("]")[2].split()
        if len(columns) < 9 or columns[4] == "Size":
            continue
        size = int(columns[4], 16)
        flags = columns[6] if len(columns) == 10 else ""  # no flags, no column
        executable += size if "X" in flags else 0
        text += size if "A" in flags and ("X" in flags or "W" not in flags) else 0
    assert (result.scores["exec_bytes"], result.scores["text_bytes"]) == (executable, text)
    assert text == int(sizes[1].split()[0])
    assert 0 < executable < text


@given(data=st.data())
def test_cut_bitcode_never_escapes_as_another_error(data, sample, toolchain, settings, tmp_path_factory):
    whole = sample("calc/lex.c").read_bytes()
    path = tmp_path_factory.mktemp("cut") / "cut.bc"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CompileError):
        compile_plain(toolchain, path, settings)


def test_a_compile_that_needs_more_memory_than_it_may_have(advised, toolchain, settings, sample, leaves_nothing):
    tight = settings.model_copy(update={"max_memory_gb": 0.19})  # enough to start clang 22, not to optimize a module
    with leaves_nothing():
        with pytest.raises(CompilerMemory, match=r"more than compile\.max_memory_gb \(0\.19\)"):
            compile_plain(toolchain, sample("json/parser.cpp"), tight)
        with pytest.raises(CompilerMemory):
            advised(sample("json/parser.cpp"), ECHO, settings=tight, with_heuristic_feature=True)


LARGE = TWO_CALLS + "const char large[3000000] = {1};"
"""Its object does not fit on the small disk."""


@pytest.fixture
def scratch_on_small_disk(small_disk, monkeypatch):
    """Let this process's scratch folder be made anew, there."""
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    monkeypatch.setattr(scratch, "_owned", {})
    yield small_disk
    scratch.remove_own_scratch()


def test_a_disk_that_fills_while_the_compiler_writes_its_object(
    advised, bitcode, toolchain, settings, scratch_on_small_disk, leaves_nothing, tmp_path
):
    small, large, kept = bitcode(TWO_CALLS), bitcode(LARGE), tmp_path / "kept.o"
    for _ in range(2):  # the second time as well: the first has left room
        with leaves_nothing(), pytest.raises(OSError, match="No space left") as caught:
            compile_plain(toolchain, large, settings, object_path=kept)
        assert caught.value.errno == errno.ENOSPC
        with leaves_nothing(), pytest.raises(OSError, match="No space left") as caught:
            advised(large, ConstantAdvisor(0), object_path=kept)
        assert caught.value.errno == errno.ENOSPC
        with leaves_nothing():
            compile_plain(toolchain, small, settings)
    assert not kept.exists()


def test_a_disk_that_is_full_where_the_object_is_kept(bitcode, toolchain, settings, small_disk, leaves_nothing):
    with leaves_nothing(), pytest.raises(ArtifactError, match=r"no space left .*kept\.o; free some") as caught:
        compile_plain(toolchain, bitcode(LARGE), settings, object_path=small_disk / "kept.o")
    assert "\n" not in str(caught.value)
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_in_a_worker_is_told_to_the_caller(bitcode, toolchain, settings, small_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk))  # of the worker
    jobs = [CompileJob("m", bitcode(text), None) for text in (TWO_CALLS, LARGE)]
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        with pytest.raises(OSError, match="No space left") as caught:
            host.compile_all(jobs)
        assert caught.value.errno == errno.ENOSPC
        (good,) = host.compile_all(jobs[:1])
    assert good.result is not None


CALLS = """
static int g(int x) { return 3 * x; }
static int f(int x) { return g(x) * x - 7; }
int first(int x) { return f(x) + 1; }
int second(int x) { return f(x) * f(x + 1); }
"""


def name(function: str) -> int:
    """Hash of a function's name, as credits have it."""
    return int.from_bytes(hashlib.blake2b(function.encode(), digest_size=8).digest(), "little")


def test_credit_names_caller_and_callee_and_leaves_the_code_as_it_is(advised, bitcode):
    """Bottom-up: g in f, then f in each of its callers. What is inlined everywhere is gone."""
    source = bitcode(CALLS)
    for answer, left in ((0, {"f", "first", "g", "second"}), (1, {"first", "second"})):
        credited = advised(source, ConstantAdvisor(answer), with_credit=True)
        plain = advised(source, ConstantAdvisor(answer))
        assert plain.credit is None
        assert credited.object_sha256 == plain.object_sha256
        credit = credited.credit
        assert credit.names.tolist() == [name(one) for one in ("f", "first", "g", "second")]
        assert credit.callers.tolist()[:2] == [0, 1]  # g in f, f in first
        assert credit.callees.tolist()[:2] == [2, 0]
        assert sorted(zip(credit.callers.tolist()[2:], credit.callees.tolist()[2:], strict=True)) == [(3, 0)] * 2
        sizes = dict(zip(("f", "first", "g", "second"), credit.sizes.tolist(), strict=True))
        assert {function for function, size in sizes.items() if size >= 0} == left
        assert sum(size for size in sizes.values() if size > 0) <= credited.scores["text_bytes"]


MANDATORY = """
#define INLINE static inline __attribute__((always_inline))
INLINE int must(int x) { return x * x + 3 * x; }
INLINE int also(int x) { return x * x - 3 * x; }
INLINE int apply(int (*f)(int), int x) { int sum = 0; for (int i = 0; i < x; ++i) sum += f(i); return sum; }
int early(int x) { return must(x) + also(x); }
static int asked(int x) { return 5 * x - 1; }
int first(int x) { return asked(x) + apply(must, x); }
int second(int x) { return asked(x + 1) * apply(also, x + 1); }
"""


@pytest.mark.parametrize("answer", [0, 1])
def test_credit_leaves_out_calls_that_must_be_inlined(advised, bitcode, answer):
    """must and also come before apply, so the calls that its inlining makes direct are left. They are no questions."""
    credit = advised(bitcode(MANDATORY), ConstantAdvisor(answer), with_credit=True).credit
    assert credit.names[credit.callers].tolist() == [name("first"), name("second")]
    (asked,) = set(credit.callees.tolist())
    assert credit.names[asked] == name("asked")


def test_credit_of_a_module_that_grows_too_much(advised, settings, sample):
    """What is not asked any more is reported, too, without a callee."""
    small = settings.model_copy(update={"size_stop_factor": 1.1})
    result = advised(sample("json/parser.cpp"), ConstantAdvisor(1), settings=small, with_credit=True)
    assert result.truncated
    assert len(result.credit.callees) == result.num_questions > 0
