"""Programs at other levels and without inlining, with the real compiler and linker; sizes by hand."""

import pytest

from mlgo.base.artifacts import SHIPPED_SIZES, write_rows
from mlgo.corpus.build import program_of_all
from mlgo.corpus.store import Module, Program
from mlgo.evaluate import CompileHost
from mlgo.evaluate.shipped import EvaluationRun, Linking, measure_references, reference_names
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import with_options
from mlgo.host.session import compile_plain
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_linker

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


def linked_of(project, *names):
    """One shared object of modules."""
    (row,) = program_of_all(project, [{"module": name, "skip_reason": ""} for name in names])
    return row


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
    programs = [Program(linked_of(one.project, one.name), "test", (one,)) for one in modules]
    linking = Linking(find_linker(), 60.0, 1)
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        rows = measure_references(
            EvaluationRun(host, modules, programs, bitcode, linking, folder), front_end, "inline-size"
        )
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


def test_options_of_code_generation_stay_and_broken_modules_have_a_reason(toolchain, settings, front_end, tmp_path):
    (tmp_path / "one.c").write_text(CONSTANT)
    front_end.compile_to_bitcode(tmp_path, "c", [], "one.c", tmp_path / "one.bc")
    (tmp_path / "one.bc").write_bytes(with_options((tmp_path / "one.bc").read_bytes(), ["-ffunction-sections"]))
    (tmp_path / "two.bc").write_bytes(b"BC\xc0\xdeno")
    modules = [Module("p", f"{name}.c", "c", "test", "") for name in ("one", "two")]
    bitcode = {one.key: tmp_path / one.name.replace(".c", ".bc") for one in modules}
    programs = [
        Program(linked_of("p", *(one.name for one in some)), "test", some) for some in ((modules[0],), tuple(modules))
    ]
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        run = EvaluationRun(host, modules, programs, bitcode, Linking(find_linker(), 60.0, 1), tmp_path)
        rows = measure_references(run, front_end, "inline-size")
    good, bad = ([row for row in rows if (row["failure"] == "") is wanted] for wanted in (True, False))
    assert {row["contender"] for row in good} == {row["contender"] for row in bad} == {"never", "-Os", "-O2"}
    assert {row["message"] for row in bad} == {"1 of 2 modules did not compile; the first is two.c"}
    assert b".text.answer" in (tmp_path / "references/-Os/000000.o").read_bytes()
