"""Whole programs, merged by the real linker: one module, groups of modules, and programs that run."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.ships import Ships
from mlgo.corpus.build import program_of_all
from mlgo.corpus.link_time import RunCheck, full_lto_asks, in_form, partition_modules, runnable_program, whole_programs
from mlgo.errors import CorpusError
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.module_file import Generation, generation_of, module_file
from mlgo.host.program import ProgramRunner
from mlgo.objects.elf import function_code, global_symbols
from tests.corpus.lto.conftest import LIBRARY, PROGRAM, program_row


def test_a_linked_file_is_one_module_that_exports_what_others_use(rows, tools, compiled, leaves_nothing):
    with leaves_nothing():
        merged, programs = whole_programs(rows, [PROGRAM, LIBRARY], tools)
    found = {(row["module"], row["language"], row["skip_reason"]) for row in merged}
    assert found == {("bin/prog", "c", ""), ("lib.so", "c++", "")}
    parts = [program["parts"] for program in programs]
    assert parts == [[{"kind": "object", "modules": [name]}] for name in ("bin/prog", "lib.so")]
    objects = compiled(merged)
    symbols = {name: global_symbols(path.read_bytes()) for name, path in objects.items()}
    assert symbols["bin/prog"] == ({b"main"}, {b"system_call"})  # unused.c is not taken, never_called is dropped
    assert symbols["lib.so"] == ({b"visible"}, frozenset())
    assert set(function_code(objects["lib.so"].read_bytes())) == {"visible"}


def test_a_program_too_large_is_cut_into_groups_that_link_to_it(rows, tools, compiled):
    both = program_row("all", "program", [("object", ["main.c", "used.c"])])
    merged, (program,) = whole_programs(rows, [both], replace(tools, max_instructions=1))
    assert [row["module"] for row in merged] == ["all#0", "all#1", "api.cpp", "unused.c"]
    assert [row["skip_reason"][:8] for row in merged] == ["", "", "unlinked", "unlinked"]
    objects = compiled(merged)
    assert global_symbols(objects["all#0"].read_bytes()) == ({b"main"}, {b"used"})
    assert global_symbols(objects["all#1"].read_bytes()) == ({b"used"}, {b"system_call"})
    separate = section_sizes(link_file(tools.linker, LinkedFile.of_row(both), compiled(rows), 60.0))
    in_groups = section_sizes(link_file(tools.linker, LinkedFile.of_row(program), objects, 60.0))
    assert 0 < in_groups["text"] < separate["text"]  # never_called has gone


def test_a_copy_in_two_groups_is_code_in_one(made, tools, compiled):
    # Both sources have a copy of twin, which noinline keeps as a function.
    text = "template <int N> __attribute__((noinline)) int twin(int x) { return x * N + 1; }\n"
    one, two = "int one(int x) { return twin<5>(x); }", "int two(int x) { return twin<5>(x) + 7; }"
    rows = made({"one.cpp": text + one, "two.cpp": text + two})
    shared = program_row("both.so", "shared", [("object", ["one.cpp", "two.cpp"])])
    merged, (program,) = whole_programs(rows, [shared], replace(tools, max_instructions=1))
    objects = compiled(merged)
    defined = [global_symbols(objects[name].read_bytes())[0] for name in ("both.so#0", "both.so#1")]
    assert sum(b"_Z4twinILi5EEii" in names for names in defined) == 1
    assert section_sizes(link_file(tools.linker, LinkedFile.of_row(program), objects, 60.0))["text"] > 0


def test_the_link_says_how_code_is_compiled_and_options_that_all_sources_share_stay(rows, tools, tmp_path, caplog):
    for row, options in zip(rows, (["-fno-common", "-fPIC"], ["-fno-common", "-fPIC", "-mcx16"], [], []), strict=True):
        row["bitcode"] = module_file(row["bitcode"], Generation(tuple(options)))
    merged, (program,) = whole_programs(rows, [PROGRAM], tools)
    (tmp_path / "merged.bc").write_bytes(merged[1]["bitcode"])
    assert (merged[1]["module"], program["options"]) == ("bin/prog", ["-pie"])
    options = ("-fno-common", "-fPIE", "-ffunction-sections", "-fdata-sections")
    assert generation_of(tmp_path / "merged.bc").options == options
    assert caplog.messages == ["bin/prog: compiled without -mcx16, which only some of its sources have"]


def overruled(tools, text):
    """The same tools under a record of what ships."""
    front_end = tools.front_end
    settings = front_end.settings.model_copy(update={"ships": Ships.of(text)})
    return replace(tools, front_end=replace(front_end, settings=settings))


@pytest.mark.parametrize(
    ("record", "option", "exported"),
    [
        ("relocation=fixed", "-fno-pic", {b"main"}),
        ("exports=all", "-fPIC", {b"visible", b"hidden", b"_Z4deepILi3EEii", b"_Z4deepILi4EEii"}),
    ],
)
def test_a_record_overrules_the_build(rows, tools, compiled, tmp_path, record, option, exported):
    program = PROGRAM if record.startswith("relocation") else LIBRARY
    merged, _ = whole_programs(rows, [program], overruled(tools, record))
    (row,) = (row for row in merged if not row["skip_reason"])
    (tmp_path / "merged.bc").write_bytes(row["bitcode"])
    assert generation_of(tmp_path / "merged.bc").options[0] == option
    assert global_symbols(compiled([row])[program["program"]].read_bytes())[0] == exported


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({"options": ["-T", "layout.ld"]}, [], "link: -T: a linker script places sections by names of files"),
        ({}, ["-fsjlj-exceptions"], "link: only some sources have -fsjlj-exceptions; one module has one kind"),
    ],
)
def test_what_cannot_be_merged_is_a_row_with_a_reason(rows, tools, changes, options, reason):
    rows[0]["bitcode"] = module_file(rows[0]["bitcode"], Generation(tuple(options)))
    merged, (program,) = whole_programs(rows, [PROGRAM | changes], tools)
    assert {row["module"]: row["skip_reason"] for row in merged}["bin/prog"].startswith(reason)
    assert program["parts"] == []


def test_a_file_that_a_record_contradicts_is_a_row_with_a_reason(rows, tools):
    merged, _ = whole_programs(rows, [PROGRAM, LIBRARY], overruled(tools, "exports=entry"))
    reasons = {row["module"]: row["skip_reason"] for row in merged}
    assert reasons["bin/prog"] == ""
    assert "exports=entry contradicts relocation=shared" in reasons[LIBRARY["program"]]


def test_a_merged_module_asks_and_an_echo_gives_the_plain_object(rows, tools, echoed):
    merged, _ = whole_programs(rows, [PROGRAM], tools)
    (data,) = (row["bitcode"] for row in merged if row["module"] == "bin/prog")
    assert echoed(data) == 2  # the calls of used, now in the same module


def test_programs_of_which_nothing_is_left_are_rows_with_a_reason_but_what_runs_at_start_stays(made, rows, tools):
    rows += made({"plugin.cpp": "extern int seen; struct Plugin { Plugin() { seen = 1; } }; static Plugin plugin;"})
    local = {"version_script": "{ local: *; };"}
    plugin = program_row("plugin.so", "shared", [("object", ["plugin.cpp"])], **local)
    without_main = program_row("tool", "program", [("object", ["used.c"])])
    nothing = program_row("none.so", "shared", [("object", ["used.c"])], **local)
    merged, programs = whole_programs(rows, [without_main, nothing, plugin], tools)
    reasons = {row["module"]: row["skip_reason"] for row in merged}
    nothing_left = "link: nothing is left: no entry point and no export needs any of its functions"
    assert reasons["tool"] == reasons["none.so"] == nothing_left
    assert reasons["plugin.so"] == ""
    assert [program["parts"] for program in programs[:2]] == [[], []]


def test_the_same_bytes_on_any_number_of_threads(rows, tools):
    programs = [PROGRAM, LIBRARY]
    once, again = (whole_programs(rows, programs, replace(tools, num_threads=number)) for number in (1, 4))
    assert [row["bitcode"] for row in once[0]] == [row["bitcode"] for row in again[0]]
    assert once[1] == again[1]
    assert in_form("objects", rows, programs, tools) == (rows, programs)  # sources stay as they are


def test_full_lto_asks_nothing_unless_another_inliner_runs(bitcode, tools, tmp_path):
    module = bitcode("static int twice(int x) { return 2 * x; } int f(int x) { return twice(x); }")
    assert not full_lto_asks(tools.linker, [module], tmp_path, 60.0)
    # Only this pass takes the advisor there (llvm/lib/Passes/PassBuilderPipelines.cpp).
    assert full_lto_asks(tools.linker, [Path("-mllvm"), Path("-enable-module-inliner"), module], tmp_path, 60.0)


A, B, C, D = (frozenset(words) for words in ([b"f", b"g", b"h"], [b"f", b"g"], [b"h", b"k"], [b"k"]))


def test_the_two_that_share_the_most_names_merge_first():
    # A and B share two names, A and C one, C and D one.
    bodies = [{1: 10}, {2: 10}, {3: 10}, {4: 10}]
    assert partition_modules([A, B, C, D], bodies, 20) == [[0, 1], [2, 3]]
    assert partition_modules([A, B, C, D], bodies, 40) == [[0, 1, 2, 3]]
    assert partition_modules([A, B, C, D], bodies, 10) == [[0], [1], [2], [3]]

    # Copies count once, and modules that share no name stay apart.
    assert partition_modules([A, B], [{1: 10}, {1: 10}], 10) == [[0, 1]]
    assert partition_modules([A, B], [{1: 10}, {2: 1}], 10) == [[0], [1]]

    assert partition_modules([B, D], [{1: 1}, {2: 1}], 100) == [[0], [1]]
    assert partition_modules([frozenset(), frozenset()], [{}, {}], 100) == [[0], [1]]


names = st.frozensets(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]))
bodies = st.dictionaries(st.integers(0, 9), st.just(3))


@given(st.lists(st.tuples(names, bodies), max_size=8), st.integers(1, 12))
def test_each_module_is_in_one_group_and_groups_are_small_enough(modules, limit):
    groups = partition_modules([one for one, _ in modules], [of for _, of in modules], limit)
    assert sorted(number for group in groups for number in group) == list(range(len(modules)))
    assert groups == sorted(sorted(group) for group in groups)
    for group in groups:
        together = {body for number in group for body in modules[number][1]}
        assert len(group) == 1 or 3 * len(together) <= limit


RUNNABLE = {
    "main.c": 'int puts(const char *); int twice(int); int main(int n, char **v) { puts(twice(n) == 2 ? "two" : "");'
    " return 0; }\n",
    "twice.c": "int twice(int x) { return 2 * x; }\nint never_called(int x) { return x; }\n",
}


@pytest.fixture
def runner(zig_cache, valgrind):
    return ProgramRunner("x86_64-linux-gnu", zig_cache, 60.0)


def test_a_project_becomes_one_module_that_runs(made, tools, runner, tmp_path, leaves_nothing):
    rows = made(RUNNABLE)
    with leaves_nothing():
        merged, (program,) = runnable_program(rows, program_of_all("p", rows), tools, RunCheck(runner, b"two\n", 1.5))
    assert [(row["module"], row["skip_reason"][:8]) for row in merged] == [("p", "")]
    assert (program["kind"], program["parts"]) == ("program", [{"kind": "object", "modules": ["p"]}])
    (tmp_path / "p.bc").write_bytes(merged[0]["bitcode"])
    found = generation_of(tmp_path / "p.bc").program
    assert found.stdout == b"two\n"
    assert 10 < found.most_text_bytes < 1000


@pytest.mark.parametrize(
    ("keep", "stdout", "message"),
    [
        (("main.c", "twice.c"), b"three\n", r"p is no program that runs: output: .* where b'three\\n' is right"),
        (("main.c",), b"two\n", "p is no program that runs: link: .*twice"),
        (("twice.c",), b"", "p is no program: link: "),
    ],
    ids=["other output", "a symbol is missing", "no main"],
)
def test_what_is_no_program_ends_the_build(made, tools, runner, keep, stdout, message):
    some = made({name: RUNNABLE[name] for name in keep})
    with pytest.raises(CorpusError, match=message):
        runnable_program(some, program_of_all("p", some), tools, RunCheck(runner, stdout, 1.2))
