"""Command lines of real builds: what is captured is what the build compiled."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mlgo.corpus.capture.importers import import_build
from mlgo.corpus.capture.project import MISSED, Extraction, extract
from mlgo.host.session import compile_plain
from tests.corpus.capture.conftest import captured, needs_gcc

TAKEN = """
-march=x86-64-v3 | -mtune=generic | -fno-pic -fno-PIE | -Wp,-U_FORTIFY_SOURCE,-D_FORTIFY_SOURCE=3 -Wp,-MD,a.d
-march=core-avx2 -mtune=native | -flto=auto -ffat-lto-objects | -specs=/usr/share/dpkg/no-pie-compile.specs | -fopenmp
-fno-plt -mabi=sysv -fno-semantic-interposition -fstack-clash-protection -fcf-protection -ffile-prefix-map=/a=b
-Wno-error=maybe-uninitialized -ftrivial-auto-var-init=zero -fstack-protector-strong -fno-strict-overflow"""
MISSING = "-falign-functions=32:16 | -fno-ipa-icf | -mpreferred-stack-boundary=4 -fno-crossjumping | -fabi-version=11"


def lines(table):
    return [one.strip() for line in table.strip().splitlines() for one in line.split(" | ")]


@needs_gcc
@pytest.mark.parametrize(
    ("flags", "missed"), [*((one, "") for one in lines(TAKEN)), *((one, one) for one in lines(MISSING))]
)
def test_flags_of_distributions_leave_no_source_out(front_end, tmp_path, monkeypatch, flags, missed):
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text("int a(int x) { return x + undeclared(x); }\n")
    status, rows = captured(front_end, tmp_path, "gcc", "-Os", *flags.split(), "-c", "a.c")
    if status:
        pytest.skip(f"this gcc does not take {flags}")
    assert [(row["skip_reason"], row[MISSED]) for row in rows] == [("", missed)]


def test_what_zig_alone_takes_is_no_option_of_the_next_compile(front_end, tmp_path, monkeypatch, toolchain, settings):
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text("int a(int x) { return __builtin_popcount(x); }\n")
    arguments = [*toolchain.driver("c")[:2], "-Os", "-mcpu=x86_64_v2", "-c", "a.c"]
    Path("compile_commands.json").write_text(
        json.dumps([{"directory": str(tmp_path), "file": "a.c", "arguments": arguments}])
    )
    (row,) = extract(
        Extraction("p", "", front_end, 1), import_build(Path("compile_commands.json").absolute(), tmp_path).units
    )
    assert row["skip_reason"] == ""
    Path("a.bc").write_bytes(row["bitcode"])
    compile_plain(toolchain, Path("a.bc"), settings, object_path=Path("a.o"))
    assert b"\xf3\x0f\xb8" in Path("a.o").read_bytes()  # popcnt, which x86-64-v2 has and the baseline has not


WITHOUT_SHRINKING = (Phase.explicit, Phase.generate)
"""To shrink a command line would take minutes."""

SOURCE = """
#ifdef __cplusplus
#define LANGUAGE cxx
extern "C"
#else
#define LANGUAGE c
#endif
#ifndef A
#define A none
#endif
#define NAMED(language, a, name) NAMED_AGAIN(language, a, name)
#define NAMED_AGAIN(language, a, name) seen_##language##_##a##_##name##_
int NAMED(LANGUAGE, A, {name})(void) { return 0; }
"""
NAMES = [
    "a.c",
    "b b.c",
    "c'c.cc",
    "d$(x)d.c",
    "e;e.cpp",
    "f%f.C",
    "g=g.c",
    "h,h.c",
    "i#.c",
    "k\u00e9.cxx",
    "-l.c",
]
OPTIONS = [
    *([f"-DA={one}"] for one in ("one", "two")),
    *(["-D", "A=three"], ["-UA"], ["-U", "A"], ["-Wp,-DA=four,-UB"], ["-include", "given.h"], ["-I", "."], ["-I."]),
    *(["-Os"], ["-g"], ["-O"], ["-Wall", "-Wextra"], ["-w"], ["-MMD", "-MF", "x.d"], ["-MD", "-MT", "x"], ["-pipe"]),
    *(["-x", "c"], ["-x", "c++"], ["-xc"], ["-x", "none"], ["-fPIC"], ["-march=x86-64-v2"], ["-mtune=generic"]),
    *(["-fno-ipa-icf"], ["--param", "ssp-buffer-size=4"], ["-Xlinker", "--gc-sections"], ["-Wl,-z,now"], ["-lm"]),
    *(["-save-temps=obj"], ["-fno-exceptions"], ["-pthread"], ["-nonsense"], ["-L", "."], ["-std=gnu99"]),
]


def seen(data):
    """Names of the functions that tell how their sources were compiled."""
    return set(re.findall(rb"seen_(?:c|cxx)_[a-z]+_s\d+_", data))


def compiled(tool, arguments, folder):
    """Status of a build, and what is in the objects and programs that it makes."""
    status = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, timeout=60).returncode
    made = [path.read_bytes() for path in folder.iterdir() if path.suffix == ".o" or path.name in ("a.out", "made")]
    return status, set().union(*map(seen, made)) if status == 0 else set()


@st.composite
def command_lines(draw):
    """A compiler, and its words: options anywhere, one to three sources, what is made."""
    sources = draw(st.lists(st.sampled_from(range(len(NAMES))), min_size=1, max_size=3, unique=True))
    words = [["./" + NAMES[one] if NAMES[one].startswith("-") else NAMES[one]] for one in sources]
    for option in draw(st.lists(st.sampled_from(OPTIONS), max_size=5)):
        words.insert(draw(st.integers(0, len(words))), option)
    kinds = [["-c"], ["-shared", "-fPIC", "-o", "made"], ["-r", "-nostdlib", "-o", "made"]]
    made = draw(st.sampled_from([*kinds, ["-c", "-o", "made.o"]] if len(sources) == 1 else kinds))
    tools = [tool for tool in ("gcc", "g++", "clang-19") if shutil.which(tool)]
    return draw(st.sampled_from(tools)), [word for some in (*words, made) for word in some]


def check(front_end, place, tool, arguments):
    plain, recorded = place / "plain", place / "recorded"
    for folder in (plain, recorded):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "given.h").write_text("#define GIVEN\n")
        for number, name in enumerate(NAMES):
            (folder / name).write_text(SOURCE.replace("{name}", f"s{number}"))
    status, expected = compiled(tool, arguments, plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(recorded)
        found, rows = captured(front_end, recorded, tool, *arguments)
    assert found == status
    if status == 0:
        assert [row["skip_reason"] for row in rows if row["skip_reason"]] == []
        assert set().union(*(seen(row["bitcode"]) for row in rows)) == expected


@needs_gcc
@settings(max_examples=6, phases=WITHOUT_SHRINKING)
@given(command_lines())
def test_what_is_captured_is_what_was_compiled(front_end, tmp_path_factory, line):
    check(front_end, tmp_path_factory.mktemp("line"), *line)


@needs_gcc
@pytest.mark.slow
@settings(max_examples=120, phases=WITHOUT_SHRINKING)
@given(command_lines())
def test_what_is_captured_is_what_was_compiled_often(front_end, tmp_path_factory, line):
    check(front_end, tmp_path_factory.mktemp("line"), *line)


@needs_gcc
def test_several_sources_in_one_command_are_several_modules(front_end, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.c", "b.c", "sub/a.c"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"int {name.replace('/', '_')[:-2]}(void) {{ return 0; }}\n")
    status, rows = captured(front_end, tmp_path, "gcc", "-shared", "-fPIC", "a.c", "b.c", "sub/a.c", "-o", "x.so")
    assert (status, [(row["module"], row["skip_reason"]) for row in rows]) == (
        0,
        [("a.c", ""), ("b.c", ""), ("sub/a.c", "")],
    )
