"""Real builds under wrappers, with the compilers of this machine."""

import os
import shutil
import subprocess
import sys

import pytest

from mlgo.corpus.capture.builds import recorded_build
from mlgo.corpus.capture.invocations import read_invocations, run_build
from mlgo.errors import ArtifactError, ConfigError

needs = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs a C compiler and make")

MAKEFILE = """\
all: prog lib.so
%.o: src/%.c
\t$(CC) -O2 -fPIC -c '$<' -o '$@'
libb.a: b.o
\t$(AR) rcs $@ $^
prog: a.o libb.a
\t$(CC) a.o -L. -lb -o $@
lib.so: b.o
\techo b.o > objects.rsp
\t$(CC) -shared @objects.rsp -o $@
\trm objects.rsp
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "a project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.c").write_text("int helper(int); int main(int n, char **v) { return helper(n) - 1; }\n")
    (folder / "src/b.c").write_text("int helper(int x) { return x; }\n")
    (folder / "Makefile").write_text(MAKEFILE)
    return folder


@needs
@pytest.mark.parametrize("jobs", ["-j1", "-j4"])
def test_make_and_wrappers_that_are_left_go_on_working(project, tmp_path, jobs):
    assert run_build(["make", "-s", "-C", str(project), jobs], tmp_path / "out") == 0
    build = recorded_build(tmp_path / "out", project)
    assert sorted(unit.name for unit in build.units) == ["src/a.c", "src/b.c"]
    found = {one.name: [part.units for part in one.parts] for one in build.programs}
    assert found == {"prog": [("src/a.c",), ("src/b.c",)], "lib.so": [("src/b.c",)]}
    assert subprocess.run([project / "prog"], check=False).returncode == 0  # the real tools did their work
    shutil.rmtree(tmp_path / "out/records")
    subprocess.run([tmp_path / "out/tools/cc", "-c", "src/b.c", "-o", "again.o"], cwd=project, check=True)
    assert (project / "again.o").exists()
    assert not (tmp_path / "out/records").exists()


@needs
def test_what_a_failing_build_did_is_kept(project, tmp_path):
    (project / "src/b.c").write_text("this is no C\n")
    assert run_build(["make", "-s", "-k", "-C", str(project)], tmp_path / "out") != 0
    assert [unit.name for unit in recorded_build(tmp_path / "out", project).units] == ["src/a.c"]


@needs
def test_a_compiler_of_several_words(project, tmp_path):
    environment = {**os.environ, "CC": "env NOTHING=1 cc"}
    assert run_build(["make", "-s", "-C", str(project)], tmp_path / "out", environment) == 0
    programs = {call.program for call in read_invocations(tmp_path / "out/records") if call.tool == "cc"}
    assert programs == {f"{shutil.which('env')} NOTHING=1 cc"}  # what env started was not recorded again


@needs
def test_paths_that_are_no_utf8(project, tmp_path):
    name = os.fsdecode(b"caf\xe9.c")
    (project / name).write_text("int x;\n")
    assert run_build(["sh", "-c", f"cd '{project}' && cc -c caf*.c -o x.o"], tmp_path / "out") == 0
    (unit,) = recorded_build(tmp_path / "out", project).units
    assert (unit.name, unit.compile.source) == (r"caf\xe9.c", name)  # tables hold text, the compiler has the bytes


@pytest.mark.parametrize(
    ("command", "compiler", "message"),
    [
        (["no-such-build"], "", "cannot start no-such-build: no such program"),
        ([sys.executable, "-V"], "no-such-cc -O", "CC=no-such-cc -O: there is no program no-such-cc"),
    ],
)
def test_programs_that_are_not_there(tmp_path, command, compiler, message):
    with pytest.raises(ConfigError, match=message):
        run_build(command, tmp_path / "out", {**os.environ, "CC": compiler})


def test_a_record_that_was_cut_off_is_passed_over_and_what_is_none_refused(tmp_path):
    (tmp_path / "1-0").write_bytes(b"cc\0cc\0/\x002\0-c\0a")
    (tmp_path / "2-0").write_bytes(b"cc\0cc\0/\x002\0-c\0a.c\0end\0")
    (tmp_path / "3-0").write_bytes(b"")
    assert [call.arguments for call in read_invocations(tmp_path)] == [("-c", "a.c")]
    (tmp_path / "1-0").write_bytes(b"cc\0cc\0/\0three\0end\0")
    with pytest.raises(ArtifactError, match="1-0 is no record of a call"):
        read_invocations(tmp_path)
    assert (tmp_path / "1-0").exists()
