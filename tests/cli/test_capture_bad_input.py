"""What a user sees of `mlgo capture` where a build or what it left behind is not as it should be."""

import json
import os
import shutil
import subprocess

import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table
from mlgo.errors import LinkError
from mlgo.host.linker import LinkedFile, link_file
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import find_linker

needs = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs a C compiler and make")


def capture(mlgo, output, *arguments, **variables):
    run = mlgo("capture", "-o", output, "--json", *arguments, **variables)
    return run, json.loads(run.stdout) if run.stdout else None


def test_a_database_of_everything_that_goes_wrong(tmp_path, mlgo):
    build = tmp_path / "a build"
    build.mkdir()
    (tmp_path / "secret").write_text("-DSECRET")
    (build / "known.rsp").write_text("-DIN_A_FILE -ffunction-sections")
    commands = {
        "good.c": "cc @known.rsp -O2 -c good.c",
        "gcc.c": "x86_64-linux-gnu-gcc-12 -O2 -fno-ipa-cp -mno-sse5 -Wlogical-op -c gcc.c",
        "missing.c": "cc -c missing.c",
        "rsp.c": "cc @gone.rsp -c rsp.c",
        "far.c": "cc @../secret -c far.c",
        "kernel.cu": "clang++ -c kernel.cu",
        "notes.xyz": "cc -c notes.xyz",
        "msvc.c": "cl.exe /O2 /c msvc.c",
        "plugin.c": "cc -fpass-plugin=./evil.so -c plugin.c",
        "load.c": "clang -Xclang -load -Xclang ./evil.so -c load.c",
        "wrapper.c": "cc -wrapper sh,-c,evil -c wrapper.c",
        "dir.c": "cc -B./evil -c dir.c",
    }
    for name in commands.keys() - {"missing.c", "notes.xyz"}:
        (build / name).write_text("int x(void) { return sizeof(long); }\n")
    entries = [{"directory": str(build), "command": command, "file": name} for name, command in commands.items()]
    entries.append({"directory": str(tmp_path / "moved"), "command": "cc -c there.c", "file": "there.c"})
    entries.append({"directory": str(build), "command": "cc good.o foreign.o @gone.rsp -o prog", "file": "good.o"})
    (build / "compile_commands.json").write_text(json.dumps(entries))
    run, found = capture(mlgo, tmp_path / "out", "--from", build, "--root", build)
    assert run.returncode == 0, run.stderr
    assert found["modules"] == 2
    reasons = {name: reason.partition(": ") for name, reason in found["skipped"].items()}
    assert {name: kind for name, (kind, _, _) in reasons.items()} == {
        "missing.c": "gone",
        "rsp.c": "response",
        "far.c": "response",
        "kernel.cu": "language",
        "notes.xyz": "language",
        "msvc.c": "compiler",
        "plugin.c": "options",
        "load.c": "options",
        "wrapper.c": "options",
        "dir.c": "options",
        f"{tmp_path}/moved/there.c": "gone",
    }
    said = {name: text for name, (_, _, text) in reasons.items()}
    assert said["far.c"] == "@../secret, a file with further arguments, lies outside of the build's folder"
    assert said["plugin.c"] == "compiled with -fpass-plugin=./evil.so, which another compiler cannot repeat"
    assert said["load.c"] == "compiled with -Xclang -load, which another compiler cannot repeat"
    assert said["wrapper.c"].startswith("compiled with -wrapper sh,-c,evil")
    assert said["dir.c"].startswith("compiled with -B./evil")
    assert said["kernel.cu"] == "cuda"
    assert said["notes.xyz"] == "none is known for notes.xyz"
    assert said["msvc.c"] == "cl.exe is no C or C++ compiler that is known here"
    assert said[f"{tmp_path}/moved/there.c"] == "folder moved, where it was compiled, is no longer there"
    assert found["left_out"]["prog"].startswith("response: @gone.rsp, a file with further arguments, is gone; ninja -t")


def test_nothing_at_all_is_an_error(tmp_path, mlgo):
    entry = {"directory": str(tmp_path / "moved"), "command": "cc -c there.c", "file": "there.c"}
    (tmp_path / "db.json").write_text(json.dumps([entry]))
    run = mlgo("capture", "-o", tmp_path / "out", "--from", tmp_path / "db.json", "--root", tmp_path)
    assert run.returncode == 1
    assert "1 sources left out (gone), the first is moved/there.c: gone: folder moved, where it was" in run.stdout
    assert run.stderr.endswith(f"error: none of the 1 units became a module; {tmp_path}/out says why\n")


MAKEFILE = b"""\
all: prog broken.o
%.o: %.c
\t$(CC) -O2 -I. -c $< -o $@
prog: m\xe9.o one/x.o two/x.o
\tcd one && $(CC) -O2 -c x.c -o x.o
\tcd two && $(CC) -O2 -c x.c -o x.o
\t$(CC) m\xe9.o one/x.o two/x.o foreign.o -o $@
one/x.o two/x.o:
"""


@needs
def test_odd_paths_equal_names_foreign_objects_and_a_build_that_fails(tmp_path, mlgo):
    build = tmp_path / os.fsdecode(b"a b\xff")
    for folder in ("one", "two"):
        (build / folder).mkdir(parents=True)
        (build / folder / "x.h").write_text(f"#define NAME {folder}\n#define VALUE {len(folder) * 1000}\n")
        (build / folder / "x.c").write_text('#include "x.h"\nint NAME(void) { return VALUE; }\n')
    (build / "two/x.h").write_text("#define NAME two\n#define VALUE 77\n")
    (build / os.fsdecode(b"m\xe9.c")).write_text("int one(void), two(void); int main(void) { return one() + two(); }\n")
    (build / "broken.c").write_text("this is no C\n")
    (build / "Makefile").write_bytes(MAKEFILE)
    (build / "other.c").write_text("int other;\n")
    subprocess.run(["cc", "-c", "other.c", "-o", "foreign.o"], cwd=build, check=True)  # not in this build
    run, found = capture(mlgo, tmp_path / "out", "--root", build, "--", "make", "-s", "-k", "-C", build)
    assert run.returncode == 2  # of make
    assert "warning: the build ended with status 2; what it had done until then is kept" in run.stderr
    assert (found["modules"], found["programs"], found["skipped"]) == (3, 1, {})
    rows = {row["module"]: row for row in read_table(tmp_path / "out/project.parquet", PROJECT).to_pylist()}
    assert set(rows) == {r"m\xe9.c", "one/x.c", "two/x.c"}
    # One relative path in two folders with other headers: zig's cache would give the first one again.
    assert rows["one/x.c"]["ir_sha256"] != rows["two/x.c"]["ir_sha256"]
    (program,) = read_table(tmp_path / "out/programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()
    assert program["foreign"] == ["foreign.o"]
    assert [name for part in program["parts"] for name in part["modules"]] == [r"m\xe9.c", "one/x.c", "two/x.c"]


def test_a_program_that_nothing_calls(bitcode, toolchain, settings, tmp_path):
    compile_plain(toolchain, bitcode("int f(int x) { return x; }\n"), settings, object_path=tmp_path / "f.o")
    file = LinkedFile("p", "prog", "program", (("archive", ("f",)),))
    with pytest.raises(LinkError, match="nothing is left: no entry point and no export needs any of its functions"):
        link_file(find_linker(), file, {"f": tmp_path / "f.o"}, 30.0)


def test_paths_that_hold_nothing_of_use(tmp_path, refuses):
    (tmp_path / "text").write_text("int x;\n")
    for path, message in ((tmp_path / "missing", "is not there"), (tmp_path / "text", "is none of these: compile_")):
        assert f"{path} {message}" in refuses("capture", "-o", tmp_path / "out", "--from", path)
