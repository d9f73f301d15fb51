"""Objects of real compilers, compiled again; what cannot be the same says why."""

import os
import shutil
import subprocess
import sys

import pytest

from mlgo.base.files import file_sha256
from mlgo.corpus.capture.builds import read_build
from mlgo.corpus.capture.commands import steps_of
from mlgo.corpus.capture.invocations import ToolInvocation
from mlgo.corpus.capture.objects import Compiler, Recompiler, front_end_words, identify, measured_object, object_rows
from mlgo.errors import ObjectError
from mlgo.host.toolchain import find_linker, find_toolchain, zig_environment

SOURCE = """\
#include <string.h>
static int twice(int x) { return 2 * x; }
int text(const char *s) { int sum = 0; for (size_t n = strlen(s); n; n--) sum += twice(s[n - 1]); return sum; }
"""
ZIG = f"{find_linker()} cc"


def units_of(calls, root):
    return read_build([step for call in calls for step in steps_of(call)], root).units


@pytest.fixture
def built(tmp_path, cache):
    def build(program, **options):
        calls = []
        for name, words in options.items():
            (tmp_path / f"{name}.c").write_text(SOURCE.replace("twice", name))
            arguments = (*words, "-c", f"{name}.c", "-o", f"{name}.o")
            run = [*program.split(), *arguments]
            subprocess.run(run, cwd=tmp_path, env=zig_environment(cache), check=True, capture_output=True)
            calls.append(ToolInvocation("cc", program, tmp_path, arguments))
        return object_rows("thing", units_of(calls, tmp_path), ran=True)

    return build


@pytest.fixture
def verified(cache):
    def verify(rows):
        found = list(Recompiler(find_toolchain("auto", "x86_64-linux-gnu"), 60.0, cache, 2).verify(rows))
        return {row["module"].removesuffix(".c"): row for row in found}

    return verify


def test_every_level_of_the_same_clang_gives_the_same_code_and_data(built, verified):
    levels = {"none": [], "o2": ["-O2"], "size": ["-Oz", "-ffunction-sections"], "debug": ["-O0", "-g", "-fPIC"]}
    machines = {
        "lines": ["-O1", '-DTEXT="a\\b$c"\n'],
        "other": ["-O2", "-target", "x86_64-linux-gnu"],
        "wide": ["-O3", "-mavx2", "-funroll-loops"],
    }
    rows = built(ZIG, **levels, **machines)
    assert {row["driver"] for row in rows} == {"zig"}
    assert [row["level"] for row in rows] == ["", "-O2", "-Oz", "-O0", "-O1", "-O2", "-O3"]
    found = verified(rows)
    assert {name: row["message"] for name, row in found.items()} == dict.fromkeys(found, "")
    assert all(row["same_contents"] and row["text_bytes"] == row["recompiled_bytes"] > 0 for row in found.values())
    assert len({row["text_bytes"] for row in found.values()}) > 3  # not one size for all


def test_reasons(built, verified, tmp_path):
    padded = ["-O2", "-Xclang", "-mstack-alignment=64"]
    dated = ["-Wno-error=date-time"]
    rows = built(ZIG, same=["-O1"], changed=[], deleted=[], unused=[], guided=[], date=dated, padded=padded)
    by_name = {row["module"]: row for row in rows}
    (tmp_path / "changed.c").write_text("int other;\n")
    (tmp_path / "deleted.c").unlink()
    by_name["unused.c"]["missing"] = "gone: the build deleted its object"
    by_name["guided.c"]["options"] = ["-fprofile-use=gone.profdata"]
    (tmp_path / "date.c").write_text("const char *when(void) { return __DATE__; }\n")
    by_name["date.c"]["source_sha256"] = file_sha256(tmp_path / "date.c")
    by_name["padded.c"]["text_bytes"] += 1
    messages = {name: row["message"] for name, row in verified(rows).items()}
    assert messages.pop("padded").startswith("options: compiled with -Xclang -mstack-alignment=64")
    found = {name: message.split(" ")[0] for name, message in messages.items()}
    reasons = {"changed": "changed:", "deleted": "gone:", "unused": "gone:", "guided": "profile:", "date": "time:"}
    assert found == {"same": "", **reasons}


def test_a_profile_of_another_source_is_told(built, verified, tmp_path):
    (tmp_path / "own.prof").write_text("text:2000:1000\n 0: 1000\n")  # by the distance from a function's first line
    (tmp_path / "other.prof").write_text("text:2000:1000\n 0: 1000\n 7: 1000\n 8: 1000\n 9: 1000\n")
    used = {name: ["-O2", "-g1", f"-fprofile-sample-use={name}.prof"] for name in ("own", "other")}
    found = verified(built(ZIG, **used, none=["-O2"]))
    assert [row["reason"] for row in found.values()] == [""] * 3
    said = {name: row["other_profile"] for name, row in found.items()}
    warning = said.pop("other")
    assert warning == "warning: other.c:3: 1 of 4 available profile records (25%) were applied"
    assert said == {"own": "", "none": ""}


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_of_another_compiler_only_the_size_is_compared(built, verified):
    rows = built("gcc", plain=["-O2", "-fipa-pta"])
    assert (rows[0]["driver"], rows[0]["compiler"].split()[:2]) == ("other", ["gcc", "version"])
    row = verified(rows)["plain"]
    assert row["reason"] == "compiler"
    assert 0 < row["recompiled_bytes"] < 1000
    assert not row["same_contents"]


def test_a_table_cannot_say_which_program_runs(built, verified, tmp_path):
    marker = tmp_path / "ran"
    rows = built(ZIG, mine=["-O2"])
    rows[0] |= {"compiler": f"touch {marker}", "options": ["-O2", "-fplugin=./evil.so"]}
    assert verified(rows)["mine"]["reason"] == "options"
    script = tmp_path / "gcc"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    (tmp_path / "mine.c").write_text("int x;\n")
    foreign = [ToolInvocation("cc", str(script), tmp_path, ("-c", "mine.c"))]
    assert object_rows("thing", units_of(foreign, tmp_path), ran=False)[0]["compiler"] == str(script)
    assert not marker.exists()


def test_what_has_no_object_says_why(tmp_path):
    for name, data in {"lto.o": b"BC\xc0\xde and more", "text.o": b"no object", "twice.o": b""}.items():
        (tmp_path / name).write_bytes(data)
    compiles = [("a.c", "lto.o"), ("b.c", "text.o"), ("c.c", "gone.o"), ("d.c", "twice.o"), ("e.c", "twice.o")]
    made = [("-c", source, "-o", output) for source, output in compiles]
    once, odd = ("f.c", "-o", "prog"), ("-c", os.fsdecode(b"caf\xe9.c"))
    calls = [*made[:4], ("twice.o", "-o", "early"), made[4], once, odd]
    units = units_of([ToolInvocation("cc", "no-such-compiler", tmp_path, words) for words in calls], tmp_path)
    found = [row["missing"].partition(":")[0] for row in object_rows("x", units, ran=True)]
    assert found == ["bitcode", "format", "gone", "replaced", "format", "temporary", "bytes"]
    with pytest.raises(ObjectError):
        measured_object(b"{}")


def test_compilers_say_what_they_are_and_what_they_would_run():
    assert (identify(ZIG).driver, identify(f"{find_linker()} clang").driver) == ("zig", "clang")
    assert identify(ZIG).sha256 == find_toolchain("auto", "x86_64-linux-gnu").sha256
    assert identify("no-such-compiler") == Compiler("no-such-compiler")
    assert identify(f"{sys.executable} -c pass").sha256 == ""
    assert front_end_words(' "/a b/clang" "-cc1" "-D" "X=\\"y\\""\n') == ["/a b/clang", "-cc1", "-D", 'X="y"']
    several = ' "c" "-cc1" "-D" "X=\\"1\\"\n" "-D" "Y=\\$\\\\" "a.c"\n "ld" "a.o"\n'
    assert front_end_words(several) == ["c", "-cc1", "-D", 'X="1"\n', "-D", "Y=$\\", "a.c"]
    assert front_end_words("gcc version 12\n cc1 -quiet") is None
    assert front_end_words(' "c" "-cc1" "a"\n "c" "-cc1" "b"\n') is None
