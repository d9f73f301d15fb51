"""Programs of data/programs built by GCC, run and counted."""

from pathlib import Path

import pytest

from mlgo.corpus.recipe import find_sources, load_recipe
from mlgo.errors import LinkError, ToolchainError
from mlgo.host.counting import find_valgrind
from mlgo.host.toolchain import find_linker
from mlgo.jit.gcc.compile import GccSettings, TranslationUnit
from mlgo.jit.gcc.preprocess import preprocess
from mlgo.jit.gcc.program import Counting, count_program
from tests.conftest import REPOSITORY

RECIPES = sorted((REPOSITORY / "config" / "programs").glob("*.yaml"))
SUM = """
int printf(const char *, ...);
double scale(double, int);
int main(void) { printf("%d\\n", (int)(scale(4.0, 1) + scale(4.0, 0))); return 5; }
"""
SCALE = (
    "double scale(double x, int a) { if (a) x *= 1.25; else x = -x; return x * 1.25; }"  # 4 * 1.5625 - 4 * 1.25 = 1.25
)


@pytest.fixture(scope="module")
def counting(zig_cache):
    try:
        return Counting(find_linker(), find_valgrind(), zig_cache)
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture
def unit(gcc, tmp_path):
    def make(name, text, performed=None):
        (tmp_path / f"{name}.c").write_text(text)
        text = preprocess(gcc, tmp_path, "c", [], f"{name}.c")
        return TranslationUnit(name, "", "c", (), text), performed

    return make


def test_a_program_of_two_units(gcc, counting, unit, leaves_nothing):
    units = [unit("sum", SUM), unit("scale", SCALE)]
    with leaves_nothing():
        run, objects = count_program(gcc, "sum", units, GccSettings(), counting)
    assert (run.stdout, run.exit_status) == (b"1\n", 5)
    assert 0 < run.writes < run.reads < run.instructions < 20_000
    assert len(objects) == 2
    assert count_program(gcc, "sum", units, GccSettings(), counting) == (run, objects)


def test_a_program_without_main(gcc, counting, unit, leaves_nothing):
    with leaves_nothing(), pytest.raises(LinkError, match="undefined symbol: main"):
        count_program(gcc, "scale", [unit("scale", SCALE)], GccSettings(), counting)


@pytest.mark.slow
@pytest.mark.parametrize("performed", [None, ()], ids=["gcc", "none"])
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_programs_run_as_expected(path: Path, performed, cxx, counting, tmp_path):
    recipe = load_recipe(path)
    root, units = REPOSITORY / recipe.path, []
    for unit, source in find_sources(recipe, root):
        text = preprocess(cxx, root, unit.language, unit.arguments(), source)
        units.append((TranslationUnit(source, "", unit.language, tuple(unit.arguments()), text), performed))
    run, objects = count_program(cxx, path.stem, units, GccSettings(), counting)
    assert run.stdout == (root / "expected.txt").read_bytes()
    assert run.exit_status == 0
    assert sum(one.num_performed for one in objects) == (
        0 if performed == () else sum(o.num_candidates for o in objects)
    )
