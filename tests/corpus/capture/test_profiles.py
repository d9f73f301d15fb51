"""Profiles that a build compiles with, by the real compiler."""

import json

import pytest

from mlgo.corpus.capture.importers import import_build
from mlgo.corpus.capture.options import profile_of
from mlgo.corpus.capture.project import Extraction, extract
from mlgo.errors import ConfigError, ObjectError
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file
from mlgo.host.session import compile_plain
from mlgo.objects.elf import read_sections, section_name

SOURCE = """\
int ext(int);
int warm(int x) {
  return ext(x + 7) * 3;
}
"""
# Offset of a line from that of its function, and how often it ran (clang's users' manual, "Sample Profile Formats").
PROFILE = "warm:20000:1000\n 1: 1000\n"
OPTIONS = ["-g1", "-ffunction-sections", "-fprofile-sample-use=feedback/p.prof"]


@pytest.fixture
def row(tmp_path, front_end):
    def capture():
        (tmp_path / "a.c").write_text(SOURCE)
        entry = {"directory": str(tmp_path), "file": "a.c", "arguments": ["cc", *OPTIONS, "-c", "a.c", "-o", "a.o"]}
        (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
        build = import_build(tmp_path / "compile_commands.json", tmp_path)
        (found,) = extract(Extraction("p", "", front_end, 1), build.units)
        return found

    return capture


def test_a_profile_stays_with_its_module(row, tmp_path, toolchain, settings):
    (tmp_path / "feedback").mkdir()
    (tmp_path / "feedback/p.prof").write_text(PROFILE)
    captured = row()
    assert captured["skip_reason"] == ""
    (tmp_path / "feedback/p.prof").unlink()
    module = tmp_path / "module.bc"
    module.write_bytes(captured["bitcode"])
    assert generation_of(module).profile == ("-fprofile-sample-use=", PROFILE.encode())

    def sections():
        compile_plain(toolchain, module, settings, object_path=tmp_path / "a.o")
        data = (tmp_path / "a.o").read_bytes()
        return {section_name(data, read_sections(data), number) for number in range(len(read_sections(data)))}

    assert b".text.hot.warm" in sections()
    module.write_bytes(module_file(bitcode_of(captured["bitcode"]), Generation(generation_of(module).options)))
    assert b".text.warm" in sections()


def test_a_profile_that_is_gone_leaves_its_source_out(row):
    assert row()["skip_reason"] == "gone: profile p.prof, which -fprofile-sample-use= names, is not there"


def test_which_profile_counts(tmp_path):
    assert profile_of(["-O2", "-fprofile-use"], tmp_path) is None
    two = ["-fprofile-use=a", "-fprofile-sample-use=b"]
    assert profile_of(two, tmp_path) == ("-fprofile-sample-use=", tmp_path / "b")
    assert profile_of([f"-fprofile-use={tmp_path}"], tmp_path) == ("-fprofile-use=", tmp_path / "default.profdata")


def test_nothing_else_can_be_attached(tmp_path):
    path = tmp_path / "m.bc"
    whole = module_file(b"BC", Generation(("-fPIC",), profile=("-fprofile-use=", b"12345678")))
    path.write_bytes(whole)
    assert generation_of(path) == Generation(("-fPIC",), b"", ("-fprofile-use=", b"12345678"))
    path.write_bytes(whole.replace(b"-fprofile-use=", b"-fplugin-evil="))
    with pytest.raises(ConfigError, match=r"m.bc: a file for -fplugin-evil=; an index, a profile, "):
        generation_of(path)
    path.write_bytes(whole[:50])
    with pytest.raises(ObjectError, match=r"the file for -fprofile-use= is cut short"):
        generation_of(path)
