"""A program of the corpus under a profile of its own run."""

import re
import subprocess
import sys

import pytest

from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.profiled import build_under_own_profile
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import ProgramOutput
from mlgo.evaluate import CompileHost
from mlgo.evaluate.programs import build_programs, measure_programs
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import generation_of
from mlgo.host.program import ProgramRunner
from mlgo.host.session import compile_plain
from mlgo.host.tasks.regalloc import FIRST_LEGAL
from mlgo.host.tasks.task import get_task
from mlgo.objects.elf import function_code
from tests.conftest import REPOSITORY

SOURCE = """
extern int printf(const char *, ...);
__attribute__((noinline)) int often(int x) { return x * x ^ x; }
__attribute__((noinline)) int never(int x) { return x * x - x; }
int main(int argc, char **argv) {
  int n = 0;
  for (int i = 0; i < 1000; i++)
    n += i < 2000 * argc ? often(i) : never(i);
  return printf("%d\\n", n) < 0;
}
"""
LIMITS = BuildLimits(10, 0.0, 0, 1)


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.c").write_text(SOURCE)
    (tmp_path / "app" / "expected.txt").write_text(f"{sum(i * i ^ i for i in range(1000))}\n")
    (tmp_path / "app.yaml").write_text(
        "{name: app, path: app, license: MIT, units: [{language: c, standard: gnu11, sources: ['*.c']}]}"
    )
    return load_recipe(tmp_path / "app.yaml")


@pytest.fixture
def fast(settings):
    return settings.model_copy(update={"optimization": "-O2"})


@pytest.fixture
def build(recipe, toolchain, fast, zig_cache, tmp_path, valgrind):
    def run(task, recipe=recipe):
        compiler = FrontEnd(toolchain, fast, zig_cache, get_task(task))
        runner = ProgramRunner(toolchain.target, zig_cache, 60.0)
        (row,) = build_under_own_profile("app", recipe, compiler, LIMITS, tmp_path / "cache", runner)
        (tmp_path / "module.bc").write_bytes(row["bitcode"])
        return compiler, tmp_path / "module.bc"

    return run


def test_optimized_modules_have_the_counts(build, tmp_path):
    compiler, module = build("regalloc-evict")
    compiler.print_ir(module, tmp_path / "module.ll")
    ir = (tmp_path / "module.ll").read_text()
    counts = dict(re.findall(r'^(!\d+) = !\{!"function_entry_count", i64 (\d+)\}', ir, re.MULTILINE))
    entries = {name: counts[node] for name, node in re.findall(r"^define .*@(\w+)\(.*!prof (!\d+)", ir, re.MULTILINE)}
    assert entries["never"] == "0"
    assert int(entries["often"]) >= 1000  # LLVM adds 1 to what it knows
    assert generation_of(module).profile is None


def test_other_modules_keep_the_profile(build, toolchain, fast, tmp_path):
    _, module = build("inline-speed")
    option, profile = generation_of(module).profile
    assert option == "-fprofile-sample-use="
    assert b"\noften:" in b"\n" + profile
    assert b"never" not in profile
    compile_plain(toolchain, module, fast, object_path=tmp_path / "module.o")
    assert b".text.unlikely.\0" in (tmp_path / "module.o").read_bytes()


def test_what_prints_something_else_has_no_profile(build, tmp_path):
    (tmp_path / "app" / "expected.txt").write_text("else\n")
    with pytest.raises(ProgramOutput, match="where b'else"):
        build("inline-speed", load_recipe(tmp_path / "app.yaml"))


def test_costs_are_what_a_run_executes(toolchain, fast, zig_cache, tmp_path, valgrind, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    task = get_task("regalloc-evict")
    compiler = FrontEnd(toolchain, fast, zig_cache, task)
    runner = ProgramRunner(toolchain.target, zig_cache, 120.0)
    programs = build_programs([REPOSITORY / "config/speed/matrix.yaml"], compiler, tmp_path, 1, runner)
    with CompileHost(toolchain, task.name, fast, 1) as host:
        contenders = {"heuristic": lambda name: None, "first": lambda name: FIRST_LEGAL}
        careful, careless = measure_programs(host, runner, valgrind, programs, contenders, tmp_path)
    executed = [4 * row["reads"] + row["writes"] for row in (careful, careless)]
    assert careless["spill_cost"] - careful["spill_cost"] == pytest.approx(executed[1] - executed[0], rel=0.15)


def test_debug_information_changes_no_code(recipe, toolchain, fast, zig_cache, tmp_path):
    code = []
    for flags in ([], ["-g1", "-fdebug-info-for-profiling"]):
        unit = recipe.units[0].model_copy(update={"flags": flags})
        compiler = FrontEnd(toolchain, fast, zig_cache)
        (row,) = build_project("app", recipe.model_copy(update={"units": [unit]}), compiler, LIMITS, tmp_path)
        (tmp_path / "module.bc").write_bytes(row["bitcode"])
        compile_plain(toolchain, tmp_path / "module.bc", fast, object_path=tmp_path / "module.o")
        code.append(function_code((tmp_path / "module.o").read_bytes()))
    assert code[0] == code[1]
    assert set(code[0]) == {"often", "never", "main"}


@pytest.mark.parametrize("kind", ["wheel: {}", "captured: build"])
def test_a_build_of_others_has_no_profile_of_its_own(kind, tmp_path):
    origin = "" if kind.startswith("captured") else f"version: '1.0', sha256: \"{'0' * 64}\", "
    (tmp_path / "thing.yaml").write_text(f"{{name: thing, license: MIT, {origin}{kind}}}")
    (tmp_path / "profiled.yaml").write_text("corpus: {own_profile: true}")
    outputs = ["--output", tmp_path / "modules.parquet", "--programs", tmp_path / "programs.parquet"]
    asked = ["--preset", tmp_path / "profiled.yaml", "--project", "thing", "--recipe", tmp_path / "thing.yaml"]
    command = [sys.executable, "scripts/build_project.py", *asked, *outputs]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("thing.yaml has none")
    assert not (tmp_path / "modules.parquet").exists()
