"""The real GCC of this machine, and small units with eliminations that can be told by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mlgo.errors import ToolchainError
from mlgo.jit.gcc.compile import GccSettings, TranslationUnit, compile_unit
from mlgo.jit.gcc.find import Gcc, find_gcc
from mlgo.jit.gcc.preprocess import preprocess
from tests.conftest import SAMPLE

# In half(), 1.25 is loaded from the constant pool in one branch and again at the end: the second load is redundant
# when the branch is taken. In loop(), 1.25 is loaded in each round.
EXAMPLE = """
void note(void);
double half(double x, int a) {
  if (a) { x *= 1.25; note(); } else { x = -x; }
  for (int i = 0; i < a; ++i) { note(); }
  return x * 1.25;
}
double loop(const double *x, int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) { if (x[i] > 2.5) s += x[i] * 1.25; note(); }
  return s / 2.5;
}
int none(int x) { return x + 1; }
"""


@pytest.fixture(scope="session")
def gcc() -> Gcc:
    try:
        return find_gcc()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cxx(gcc: Gcc) -> Gcc:
    if gcc.cxx_binary is None:
        pytest.skip("there is no g++ beside gcc; install the package g++")
    return gcc


@pytest.fixture
def example(gcc: Gcc, tmp_path: Path) -> Path:
    """`EXAMPLE`, preprocessed."""
    (tmp_path / "example.c").write_text(EXAMPLE)
    unit = tmp_path / "example.i"
    unit.write_bytes(preprocess(gcc, tmp_path, "c", [], "example.c"))
    return unit


@pytest.fixture
def sample_unit(gcc: Gcc, tmp_path: Path) -> Callable[[str], Path]:
    """A source of data/sample by its path there, preprocessed."""

    def make(source: str) -> Path:
        language = "c" if source.endswith(".c") else "c++"
        unit = tmp_path / (source.replace("/", "-") + ".i")
        unit.write_bytes(preprocess(gcc, SAMPLE, language, [], source))
        return unit

    return make


def compile_file(gcc: Gcc, path: Path, language: str, performed, settings: GccSettings, arguments=(), **options):
    """`compile_unit` on a preprocessed file."""
    unit = TranslationUnit(path.name, "", language, tuple(arguments), path.read_bytes())
    return compile_unit(gcc, unit, performed, settings, **options)
