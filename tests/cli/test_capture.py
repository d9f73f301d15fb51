"""`mlgo capture` and `mlgo evaluate` on small real builds."""

import json
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, VERIFIED, read_table
from mlgo.corpus.store import unpack_project
from mlgo.host.linker import LinkedFile, measure_file
from mlgo.host.module_file import generation_of
from mlgo.host.toolchain import find_linker

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make")

MAKEFILE = """\
CFLAGS = -Os -ffunction-sections -fomit-frame-pointer
all: prog lib.so
%.o: %.c
\t$(CC) $(CFLAGS) -c $< -o $@
%.o: %.cpp
\t$(CXX) $(CFLAGS) -fPIC -c $< -o $@
libutil.a: used.o unused.o
\t$(AR) rcs $@ $^
prog: main.o libutil.a
\t$(CC) -Oz $^ -Wl,--gc-sections -o $@
lib.so: api.o
\t$(CC) -Oz -shared -Wl,--version-script=exports.map $^ -o $@
"""
SOURCES = {
    "Makefile": MAKEFILE,
    "exports.map": "{ global: visible; local: *; };\n",
    "main.c": "int used(int); int main(int n, char **v) { return used(n) - 2; }\n"
    "int never_called(int x) { return x * 3; }\n",
    "used.c": "static int twice(int x) { return 2 * x; } int used(int x) { return twice(x); }\n",
    "unused.c": "int unused(int x) { return x + 12345; }\n",
    "api.cpp": 'extern "C" int visible(int x) { return x + 1; } extern "C" int hidden(int x) { return x + 2; }\n',
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def captured(project, tmp_path_factory, mlgo):
    output = tmp_path_factory.mktemp("captured") / "thing"
    root = project / ".." / project.name
    zig = f"{find_linker()} "
    run = mlgo(
        *("capture", "-o", str(output), "--root", str(root), "--json", "--", "make", "-s", "-C", str(root)),
        CC=zig + "cc",
        CXX=zig + "c++",
    )
    assert run.returncode == 0, run.stderr
    nothing = {key: {} for key in ("skipped", "left_out", "edited", "foreign", "missed")}
    assert json.loads(run.stdout) == {"modules": 4, "programs": 2, **nothing}
    return output


def test_the_real_tools_did_their_work(project, captured):
    assert subprocess.run([project / "prog"], check=False).returncode == 0


def test_modules_carry_the_options_of_their_compiles(captured, tmp_path):
    modules, files = unpack_project(captured / "project.parquet", tmp_path)
    languages = {one.name: one.language for one in modules}
    assert languages == {"api.cpp": "c++", "main.c": "c", "unused.c": "c", "used.c": "c"}
    by_name = {one.name: generation_of(files[one.key]).options for one in modules}
    assert by_name["main.c"] == ("-ffunction-sections",)
    assert by_name["api.cpp"] == ("-ffunction-sections", "-fPIC")


def test_a_captured_project_is_one_of_a_corpus(captured):
    table = read_table(captured / "project.parquet", PROJECT)
    assert set(table["skip_reason"].to_pylist()) == {""}
    assert pq.ParquetFile(captured / "project.parquet").num_row_groups >= 1


def test_programs_say_how_they_are_linked(captured):
    rows = {row["program"]: row for row in read_table(captured / "programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()}
    assert sorted(rows) == ["lib.so", "prog"]
    assert rows["prog"]["parts"] == [
        {"kind": "object", "modules": ["main.c"]},
        {"kind": "archive", "modules": ["used.c", "unused.c"]},
    ]
    assert rows["prog"]["options"] == ["--gc-sections", "-no-pie"]
    assert rows["lib.so"]["kind"] == "shared"
    assert rows["lib.so"]["version_script"] == SOURCES["exports.map"]
    assert LinkedFile.of_row(rows["prog"]).modules == ("main.c", "used.c", "unused.c")


def test_a_file_is_measured_as_it_ships(captured, project):
    sizes = measure_file((project / "prog").read_bytes())
    assert sizes["total"] == sizes["text"] + sizes["read_only"] + sizes["unwind"]
    assert sizes["text"] > 0
    assert 0 < sizes["compressed"] < (project / "prog").stat().st_size


def test_a_capture_is_verified_by_the_builds_own_objects(captured, mlgo):
    run = mlgo("corpus", "verify", "--project", str(captured), "--least", "1", "--json")
    assert run.returncode == 0, run.stderr
    summary = json.loads(run.stdout)
    assert (summary["modules"], summary["reproduced"], summary["same_contents"]) == (4, 4, 4)
    assert (summary["reasons"], summary["other_profile"]) == ({}, 0)
    rows = read_table(captured / "verified.parquet", VERIFIED).to_pylist()
    assert {row["level"] for row in rows} == {"-Os"}  # of the build, while modules are compiled at -Oz
    assert sum(row["text_bytes"] for row in rows) == summary["text_bytes"] == summary["recompiled_bytes"]


def test_what_is_not_reproduced_is_listed(tmp_path, mlgo, refuses):
    (tmp_path / "one.c").write_text("int x(void) { return 1; }\n")
    (tmp_path / "two.c").write_text("int y(void) { return 1; }\n")
    (tmp_path / "old.prof").write_text("y:2000:1000\n 0: 1000\n 8: 1000\n")
    zig, profiled = f"{find_linker()} cc", "-O2 -g1 -fprofile-sample-use=old.prof"
    calls = f"cd '{tmp_path}' && $CC -c one.c && $CC {profiled} -c two.c"
    run = mlgo("capture", "-o", str(tmp_path / "out"), "--", "sh", "-c", calls, CC=zig)
    assert run.returncode == 0, run.stderr
    (tmp_path / "one.c").write_text("int x(void) { return 2; }\n")
    run = mlgo("corpus", "verify", "--project", str(tmp_path / "out"), "--least", "0.6")
    assert run.returncode == 1
    assert "1 of 2 modules (50.0 %)" in run.stdout
    assert "1 with a profile of other sources, as LLVM says, the first is" in run.stdout
    assert "two.c: warning: two.c:1: 1 of 2 available profile records" in run.stdout
    assert "1 not reproduced, the first is" in run.stdout
    assert "changed: one.c is another one since the capture" in run.stdout
    refuses("corpus", "verify", "--project", tmp_path / "nothing")


def test_failures_say_what_to_do(tmp_path, refuses):
    assert "no compile was seen" in refuses("capture", "-o", tmp_path / "out", "--", "true")
    (tmp_path / "one.c").write_text("int x(void) { return 1; }\n")
    build = ("sh", "-c", f"cd {tmp_path} && {find_linker()} cc -c one.c && cc -print-file-name=crt1.o > /dev/null")
    assert "set compilers in the environment" in refuses("capture", "-o", tmp_path / "out", "--", *build)
    assert "give one of a command after --, --from, and --sdist" in refuses("capture", "-o", tmp_path / "out")


def test_sources_that_are_gone_are_rows(tmp_path, mlgo):
    database = tmp_path / "compile_commands.json"
    (tmp_path / "here.c").write_text("int x(void) { return 1; }\n")
    (tmp_path / "bad.c").write_text("this is no C\n")
    names = ("here.c", "gone.c", "bad.c", "start.S", "plugin.c")
    extra = {"plugin.c": "-fplugin=./evil.so", "here.c": "-fipa-pta -fno-common"}  # the first is GCC's own
    database.write_text(
        json.dumps([{"directory": str(tmp_path), "command": f"cc {extra.get(n, '')} -c {n}", "file": n} for n in names])
    )
    (tmp_path / "plugin.c").write_text("int y;\n")
    run = mlgo("capture", "-o", str(tmp_path / "out"), "--root", str(tmp_path), "--from", str(database), "--json")
    found = json.loads(run.stdout)
    assert (found["modules"], found["programs"]) == (1, 0)
    assert found["skipped"]["gone.c"] == "gone: gone.c is no longer there"
    assert found["skipped"]["start.S"] == "language: assembler"
    assert found["skipped"]["bad.c"].startswith("exit: ")
    assert found["skipped"]["plugin.c"].startswith("options: compiled with -fplugin=./evil.so")
    _, files = unpack_project(tmp_path / "out/project.parquet", tmp_path / "bitcode")
    assert generation_of(files["out/here.c"]).options == ("-fno-common",)


def test_what_is_exported_is_captured_again_as_it_was(captured, tmp_path, prints, refuses):
    export = ("corpus", "export", "--project", captured, "-o", tmp_path / "corpus")
    assert prints(*export) == f"4 modules in {tmp_path}/corpus\n"
    found = prints("capture", "-o", tmp_path / "again", "--from", tmp_path / "corpus", "--json")
    assert json.loads(found)["modules"] == 4
    tables = (captured / "project.parquet", tmp_path / "again/project.parquet")
    both = (unpack_project(table, tmp_path / "bitcode") for table in tables)
    before, again = ({one.name: files[one.key].read_bytes() for one in modules} for modules, files in both)
    assert again == before
    error = refuses("corpus", "verify", "--project", tmp_path / "again")
    assert "was taken from bitcode, so there is no object of a build to compare with" in error
    assert refuses(*export) == f"{tmp_path}/corpus is not empty; name another folder"
