"""Levels and languages of modules, told by their IR; and another level."""

import pytest

from mlgo.corpus.build import ir_of
from mlgo.corpus.capture.options import is_of_level, language_of, level_of, with_level
from mlgo.host.frontend import FrontEnd

TEXT = "int used(int); int f(int x) { return used(x); } int g(int x) { return x; }\n"


def ir_at(front_end, tmp_path, level, text=TEXT):
    settings = front_end.settings.model_copy(update={"optimization": level})
    at_level = FrontEnd(front_end.toolchain, settings, front_end.cache_dir)
    (tmp_path / "text.c").write_text(text)
    at_level.compile_to_bitcode(tmp_path, "c", [], "text.c", tmp_path / "text.bc")
    return ir_of(at_level, tmp_path / "text.bc")


@pytest.mark.parametrize(
    ("level", "named"), [("-Oz", "-Oz"), ("-Os", "-Os"), ("-O2", "-O1 to -O3"), ("-O3", "-O1 to -O3"), ("-O0", "-O0")]
)
def test_levels_are_told(front_end, tmp_path, level, named):
    assert level_of(ir_at(front_end, tmp_path, level)) == named
    assert is_of_level(named, level)


@pytest.mark.parametrize("before", ["-O2", "-Os", "-Oz"])
@pytest.mark.parametrize("wanted", ["-O2", "-Os", "-Oz"])
def test_a_module_of_another_level_becomes_what_clang_makes_there(front_end, tmp_path, before, wanted):
    (tmp_path / "edited.ll").write_bytes(with_level(ir_at(front_end, tmp_path, before), wanted))
    front_end.convert(tmp_path / "edited.ll", tmp_path / "edited.bc", "-c")
    expected = ir_at(front_end, tmp_path, wanted)
    found = ir_of(front_end, tmp_path / "edited.bc")
    assert level_of(found) == level_of(expected)
    definitions = [line for line in expected.splitlines() if line.startswith((b"define", b"attributes #0"))]
    assert [line for line in found.splitlines() if line.startswith((b"define", b"attributes #0"))] == definitions


def test_functions_that_refuse_optimization_stay(front_end, tmp_path):
    text = TEXT + "__attribute__((optnone, noinline)) int h(int x) { return x; }\n"
    found = with_level(ir_at(front_end, tmp_path, "-O2", text), "-Oz")
    groups = [set(line.split()) for line in found.splitlines() if line.startswith(b"attributes")]
    assert {(b"minsize" in words, b"optnone" in words) for words in groups} >= {(True, False), (False, True)}
    assert not any({b"minsize", b"optnone"} <= words for words in groups)


@pytest.mark.parametrize(
    ("ir", "language"),
    [
        (b'source_filename = "a/b.c"\n', "c"),
        (b'source_filename = "b.cpp"\n', "c++"),
        (b'source_filename = "b.m"\n', "objective-c"),
        (b'source_filename = "ld-temp.o"\ndefine void @_Z1fv() {\n', "c++"),
        (b'source_filename = "ld-temp.o"\ndefine void @f() {\n', "c"),
        (b"", "c"),
    ],
)
def test_languages(ir, language):
    assert language_of(ir) == language
