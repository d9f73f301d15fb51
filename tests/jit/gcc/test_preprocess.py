"""Preprocessed text: free of paths, and as good as the source."""

import subprocess

import pytest

from mlgo.errors import CompilerExit, CompileTimeout, ConfigError
from mlgo.jit.gcc.compile import GccSettings
from mlgo.jit.gcc.preprocess import preprocess
from tests.conftest import SAMPLE
from tests.jit.gcc.conftest import compile_file

SOURCE = """#include <stddef.h>
#include "part/own.h"
const char *where = __FILE__, *when = __DATE__, *header = OWN;
int line = __LINE__; size_t size = SIZE;
"""
SECTIONS = [("c", "calc/eval.c"), ("c++", "matrix/lu.cpp")]


def write(folder):
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "own.h").write_text("#define OWN __FILE__\n")
    (folder / "main.c").write_text(SOURCE)
    return folder


def test_the_same_bytes_in_any_folder(gcc, tmp_path, leaves_nothing):
    with leaves_nothing():
        first = preprocess(gcc, write(tmp_path / "a"), "c", ["-I.", "-DSIZE=7"], "main.c")
    second = preprocess(gcc, write(tmp_path / "deeper" / "folder"), "c", ["-I.", "-DSIZE=7"], "main.c")
    assert first == second
    text = first.decode()
    assert 'where = "main.c", *when = "Jan  1 1970", *header = "main.c"' in text
    assert "line = 4; size_t size = 7;" in text
    assert str(tmp_path) not in text
    assert "/usr" not in text


def test_options_that_load_other_code_are_refused(gcc, tmp_path):
    (tmp_path / "a.c").write_text("int a;")
    with pytest.raises(ConfigError, match="compiler option -fplugin=x can make"):
        preprocess(gcc, tmp_path, "c", ["-fplugin=x"], "a.c")
    with pytest.raises(ConfigError, match="compiler option -wrapper can make"):
        compile_file(gcc, tmp_path / "a.c", "c", None, GccSettings(), arguments=["-wrapper", "x"])


def test_absolute_folders_of_the_sources_are_cut(gcc, tmp_path):
    root = write(tmp_path / "a")
    text = preprocess(gcc, root, "c", ["-DSIZE=7"], str(root / "main.c"))
    assert b'where = "./main.c"' in text


@pytest.mark.parametrize(("language", "source"), SECTIONS)
def test_the_object_is_that_of_the_source(cxx, language, source, tmp_path):
    unit, first, second = tmp_path / "unit.i", tmp_path / "first.o", tmp_path / "second.o"
    unit.write_bytes(preprocess(cxx, SAMPLE, language, [], source))
    compile_file(cxx, unit, language, None, GccSettings(), object_path=first)
    subprocess.run([cxx.driver(language), "-O2", "-c", source, "-o", second], cwd=SAMPLE, check=True)
    for path in (first, second):  # the symbol of the source file bears its name
        subprocess.run(["strip", path], check=True)
    assert first.read_bytes() == second.read_bytes()


def test_what_cannot_be_preprocessed(gcc, tmp_path, leaves_nothing):
    (tmp_path / "main.c").write_text('#include "missing.h"\n')
    with leaves_nothing(), pytest.raises(CompilerExit, match=r"status 1: .*missing\.h: No such file") as caught:
        preprocess(gcc, tmp_path, "c", [], "main.c")
    assert str(tmp_path) not in str(caught.value)
    with leaves_nothing(), pytest.raises(CompileTimeout):
        preprocess(gcc, tmp_path, "c", [], "main.c", timeout_s=0.0)
