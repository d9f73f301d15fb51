"""Programs of real objects, with the real linker; at other levels and without inlining, too."""

import dataclasses

import pyarrow.compute as pc
import pytest

from mlgo.base.artifacts import SHIPPED_SIZES, write_rows
from mlgo.corpus.build import program_of_all
from mlgo.corpus.seen import SeenBodies, kinds_by_name, project_bodies, seen_table
from mlgo.corpus.store import Module, Program
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.shipped import (
    EvaluationRun,
    Linking,
    bytes_by_kind,
    measure_programs,
    measure_references,
    object_paths,
    reference_names,
)
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import Generation, module_file
from mlgo.host.session import compile_plain
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_linker
from mlgo.objects.elf import read_sections, text_size
from mlgo.objects.symbols import FunctionExtent
from tests.host.test_linker import FIRST, size

MODULES = [Module("graph", f"{name}.cpp", "c++", "test", "") for name in ("paths", "order", "spanning")]


def linked_of(*modules):
    """One shared object of the modules of a project."""
    (row,) = program_of_all(modules[0].project, [{"module": one.name, "skip_reason": ""} for one in modules])
    return Program(row, "test", modules)


@pytest.fixture(scope="module")
def linking():
    return Linking(find_linker(), 60.0, 1)


@pytest.fixture(scope="module")
def compiled(toolchain, settings, sample, tmp_path_factory):
    """Object files of all modules under the heuristic, by key."""
    objects = object_paths(MODULES, tmp_path_factory.mktemp("objects"))
    jobs = [CompileJob(one.key, sample(one.key), None, object_path=objects[one.key]) for one in MODULES]
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        host.compile_all(jobs)
    return objects


@pytest.fixture(scope="module")
def graph():
    """The shared object of all modules of a project."""
    return linked_of(*MODULES)


def test_one_shared_object_of_all_modules(linking, compiled, graph, leaves_nothing):
    with leaves_nothing():
        plain, folded = measure_programs(linking, "heuristic", [graph], compiled)
    paths = list(compiled.values())
    texts = [text_size(read_sections(path.read_bytes())) for path in paths]
    for row in (plain, folded):
        assert row["total"] == size(paths, *(["--icf=all"] if row["folded"] else []))
        assert max(texts) < row["total"] < sum(texts)
        assert (row["program"], row["num_modules"], row["split"]) == ("graph.so", 3, "test")
        assert (row["contender"], row["failure"], row["message"]) == ("heuristic", "", "")
    assert (plain["folded"], folded["folded"]) == (False, True)
    assert folded["total"] <= plain["total"]


def test_threads_do_not_matter(linking, compiled, graph):
    rows = measure_programs(linking, "heuristic", [graph], compiled)
    assert measure_programs(dataclasses.replace(linking, num_threads=3), "heuristic", [graph], compiled) == rows


def test_a_program_with_a_failed_compile_has_no_size(linking, compiled, graph, tmp_path):
    rows = measure_programs(linking, "es-s0", [graph], {**compiled, "graph/order.cpp": tmp_path / "none.o"})
    assert {(row["total"], row["failure"], row["num_modules"]) for row in rows} == {(None, "compile", 3)}
    assert rows[0]["message"] == "1 of 3 modules did not compile; the first is order.cpp"


def test_a_failed_link_is_a_row(linking, compiled, graph, tmp_path):
    broken = tmp_path / "broken.o"
    broken.write_bytes(b"no object")
    rows = measure_programs(linking, "es-s0", [graph], {**compiled, "graph/order.cpp": broken})
    assert {row["failure"] for row in rows} == {"link"}
    late = measure_programs(dataclasses.replace(linking, timeout_s=0.0), "es-s0", [graph], compiled)
    assert {row["failure"] for row in late} == {"timeout"}


def test_only_the_folded_size_has_identical_code_once(linking, toolchain, settings, bitcode, tmp_path):
    module = Module("twins", "first.cpp", "c++", "test", "")
    compile_plain(toolchain, bitcode(FIRST, "c++"), settings, object_path=tmp_path / "first.o")
    plain, folded = measure_programs(linking, "heuristic", [linked_of(module)], {module.key: tmp_path / "first.o"})
    assert 0 < folded["total"] < plain["total"]


def test_bytes_by_kind_by_hand():
    """Names of real symbols: parts and copies go on after a dot, a constructor may have two names."""
    program = Program({"project": "p"}, "test", tuple(Module("p", name, "c++", "test", "") for name in "ab"))
    kinds = {
        "p/a": {"run": "unseen", "_ZNSt3__14swapIiEEvRT_S2_": "standard", "helper": "near"},
        "p/b": {"helper": "exact", "_ZN3BoxC2Ev": "unseen"},
    }
    functions = [
        FunctionExtent("a", ("run",), 100, 24),
        FunctionExtent("a", ("run.cold.1",), 10, 4),
        FunctionExtent("a", ("helper",), 7, 1),
        FunctionExtent("b", ("helper",), 30, 2),  # another function of the same name
        FunctionExtent("b", ("helper.llvm.123",), 5, 0),
        FunctionExtent("b", ("_ZN3BoxC1Ev", "_ZN3BoxC2Ev"), 16, 8),
        FunctionExtent("a", ("_ZNSt3__14swapIiEEvRT_S2_",), 11, 3),
        FunctionExtent("a", ("OUTLINED_FUNCTION_0",), 64, 9),  # the compiler's own: of no kind
    ]
    assert bytes_by_kind(functions, program, kinds) == [
        {"kind": "unseen", "text": 126, "unwind": 36},
        {"kind": "near", "text": 7, "unwind": 1},
        {"kind": "exact", "text": 35, "unwind": 2},
        {"kind": "standard", "text": 11, "unwind": 3},
        {"kind": "bindings", "text": 0, "unwind": 0},
    ]


def test_kinds_add_up_to_no_more_than_what_ships(linking, compiled, graph, sample, front_end, tmp_path):
    sources = {one.key: sample(one.key) for one in MODULES}
    bodies = project_bodies(front_end.print_ir, MODULES, sources, tmp_path)
    paths = bodies.filter(pc.equal(bodies["module"], "paths.cpp"))
    kinds = kinds_by_name(seen_table(bodies, SeenBodies.of(paths).kinds(bodies)))
    row, folded = measure_programs(dataclasses.replace(linking, kinds=kinds), "heuristic", [graph], compiled)
    plain, _ = measure_programs(linking, "heuristic", [graph], compiled)
    found = {one["kind"]: one for one in row["kinds"]}
    assert found["exact"]["text"] > 0 < found["unseen"]["text"]
    assert 0 < sum(one["text"] for one in found.values()) <= row["text"]
    assert 0 < sum(one["unwind"] for one in found.values()) <= row["unwind"]
    assert (folded["kinds"], plain["kinds"]) == (None, None)
    assert {**row, "kinds": None} == plain
    write_rows(tmp_path / "shipped.parquet", [row, folded], SHIPPED_SIZES, {})


CONSTANT = "int answer(void) { return 42; }\n"
# At -Oz: push 42 in 2 bytes, pop in 1, ret in 1. At the others: mov in 5, ret in 1.
INLINED = """
static int twice(int x) { return 2 * x; }
int four_times(int x) { return twice(twice(x)); }
"""
# Inlined: lea with a scale and no base in 7, ret in 1. Never: two calls, and the body of twice.
COLD = """
int used(int);
int loop(const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += used(p[i]) * 10; return s; }
"""


@pytest.fixture(scope="module")
def measured(toolchain, settings, front_end, tmp_path_factory):
    """Sizes of two shared objects by project and contender, without folding; and the folder of the sources."""
    folder = tmp_path_factory.mktemp("references")
    modules, bitcode = [], {}
    for project, text in (("constant", CONSTANT), ("inlined", INLINED), ("cold", COLD)):
        (folder / f"{project}.c").write_text(text)
        front_end.compile_to_bitcode(folder, "c", [], f"{project}.c", folder / f"{project}.bc")
        modules.append(Module(project, f"{project}.c", "c", "test", ""))
        bitcode[modules[-1].key] = folder / f"{project}.bc"
    programs, linking = list(map(linked_of, modules)), Linking(find_linker(), 60.0, 1)
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        run = EvaluationRun(host, modules, programs, bitcode, linking, folder)
        rows = measure_references(run, front_end, "inline-size")
    write_rows(folder / "shipped.parquet", rows, SHIPPED_SIZES, {})
    return {(row["project"], row["contender"]): row for row in rows if not row["folded"]}, folder


def test_sizes_by_hand(measured):
    rows, _ = measured
    assert {(row["failure"], row["language"], row["split"]) for row in rows.values()} == {("", "c", "test")}
    text = {key: row["text"] for key, row in rows.items() if key[0] == "constant"}
    assert text == {("constant", "never"): 4, ("constant", "-Os"): 6, ("constant", "-O2"): 6}
    assert rows["inlined", "never"]["text"] > rows["inlined", "-Os"]["text"] == 8


@pytest.mark.parametrize("level", ["-Os", "-O2"])
def test_a_module_of_another_level_ships_as_one_that_was_made_there(measured, toolchain, settings, level):
    rows, folder = measured
    there = settings.model_copy(update={"optimization": level})
    front_end = FrontEnd(toolchain, there, folder / "cache")
    for project in ("constant", "inlined", "cold"):
        front_end.compile_to_bitcode(folder, "c", [], f"{project}.c", folder / "there.bc")
        compiled = compile_plain(toolchain, folder / "there.bc", there, object_path=folder / "there.o")
        again = compile_plain(toolchain, folder / "references" / level / f"{number(project)}.bc", there)
        assert again.object_sha256 == compiled.object_sha256
        assert rows[project, level]["text"] > 0


def number(project):
    return f"{('constant', 'inlined', 'cold').index(project):06d}"


def test_which_there_are():
    assert reference_names(get_task("inline-size"), "-Oz") == ("never", "-Os", "-O2")
    assert reference_names(get_task("inline-size"), "-O2") == ("never", "-Oz", "-Os")
    assert reference_names(get_task("regalloc-evict"), "-O2") == ()


def test_options_of_code_generation_stay_and_broken_modules_have_a_reason(
    linking, toolchain, settings, front_end, bitcode, tmp_path
):
    good, broken = bitcode(CONSTANT), tmp_path / "two.bc"
    good.write_bytes(module_file(good.read_bytes(), Generation(("-ffunction-sections",))))
    broken.write_bytes(b"BC\xc0\xdeno")
    modules = [Module("p", f"{name}.c", "c", "test", "") for name in ("one", "two")]
    files = {one.key: path for one, path in zip(modules, (good, broken), strict=True)}
    programs = [linked_of(modules[0]), linked_of(*modules)]
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        run = EvaluationRun(host, modules, programs, files, linking, tmp_path)
        rows = measure_references(run, front_end, "inline-size")
    good, bad = ([row for row in rows if (row["failure"] == "") is wanted] for wanted in (True, False))
    assert {row["contender"] for row in good} == {row["contender"] for row in bad} == {"never", "-Os", "-O2"}
    assert {row["message"] for row in bad} == {"1 of 2 modules did not compile; the first is two.c"}
    assert b".text.answer" in (tmp_path / "references/-Os/000000.o").read_bytes()
