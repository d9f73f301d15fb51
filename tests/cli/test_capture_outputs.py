"""`mlgo capture` of builds that move what they make, and of places with odd names: as without mlgo, and captured."""

import json
import os
import shutil
import subprocess

import pytest

from mlgo.base.artifacts import OBJECTS_OF_BUILD, PROGRAMS_OF_PROJECT, read_table
from mlgo.corpus.capture.builds import recorded_build
from mlgo.corpus.capture.invocations import run_build
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs a C compiler and make")

SOURCES = {
    "main.c": "int a(int), b(int); int main(void) { return a(1) + b(2) - 5; }\n",
    "lib/a.c": "int a(int x) { return x + 1; }\n",
    "lib/b.c": "int b(int x) { return x + 1; }\n",
}
COMPILES = "cc -Os -c main.c && cc -Os -c lib/a.c && cc -Os -c lib/b.c"
MOVES = {
    "objects renamed": (
        "for f in main lib/a lib/b; do cc -Os -c $f.c -o t.o && mv t.o $(basename $f).out; done; cc *.out -o prog"
    ),
    "the program renamed": f"{COMPILES}; cc main.o a.o b.o -o prog.new && mv prog.new prog",
    "one command, renamed": "cc -Os -o prog.new main.c lib/a.c lib/b.c && mv prog.new prog",
    "objects copied, then both gone": (
        f"{COMPILES}; mkdir o; cp *.o o; rm *.o; cc o/main.o o/a.o o/b.o -o prog; rm -r o"
    ),
    "objects installed into an archive": (
        f"{COMPILES}; install -D a.o o/a.o; install -D b.o o/b.o; rm a.o; ar rc liba.tmp o/*.o; mv liba.tmp liba.a;"
        "cc main.o -L. -la -o prog"
    ),
    "objects behind links": f"{COMPILES}; ln -s a.o x.o; ln b.o y.o; cc main.o x.o y.o -o prog",
    "folders behind links": (
        "mkdir real; ln -s real o; cc -c main.c -o o/m.o; cc -c lib/a.c -o real/a.o; cd o; cc -c ../lib/b.c -o b.o;"
        "cd ..; cc o/m.o o/a.o real/b.o -o prog"
    ),
    "objects stripped in place": f"{COMPILES}; strip -g a.o; cc main.o a.o b.o -o prog",
    "objects in a response file": (
        f"{COMPILES}; mkdir o; mv *.o o; echo o/a.o o/b.o > in.rsp; echo o/main.o @in.rsp > out.rsp;"
        "cc @out.rsp -o prog; rm -r o *.rsp"
    ),
}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "app"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def programs_of(build):
    return {one.name: sorted(name for part in one.parts for name in part.units) for one in build.programs}


def run_in(folder, script, output, **variables):
    environment = {**os.environ, **variables}
    assert run_build(["sh", "-ec", f"cd '{folder}'; {script}"], output, environment) == 0
    return recorded_build(output, folder)


@pytest.mark.parametrize("script", MOVES.values(), ids=MOVES)
def test_what_was_moved_is_what_was_compiled(project, tmp_path, script):
    build = run_in(project, script, tmp_path / "out")
    assert programs_of(build) == {"prog": sorted(SOURCES)}
    assert build.programs[0].foreign == ()
    assert sorted(unit.name for unit in build.units) == sorted(SOURCES)


def test_equal_objects_go_by_their_names(project, tmp_path):
    for name in ("a.c", "b.c"):
        (project / name).write_text("int same;\n")
    script = "for f in a b; do cp $f.c t.c; cc -c t.c -o $f.tmp; mv $f.tmp $f.o; done"
    build = run_in(project, script, tmp_path / "out")
    assert [unit.object.name for unit in build.units] == ["a.o", "b.o"]


def test_names_are_relative_whichever_way_a_folder_is_reached(project, tmp_path):
    (tmp_path / "link").symlink_to(project)
    (project / "Makefile").write_text("prog: main.o\n\t$(MAKE) -C lib\n\tcc -o $@ $^ lib/a.o lib/b.o\n")
    (project / "lib/Makefile").write_text("all: a.o b.o\n")
    for number, root in enumerate((project, tmp_path / "link")):
        assert run_build(["sh", "-c", f"cd '{tmp_path}/link' && make -sB"], tmp_path / f"out{number}") == 0
        build = recorded_build(tmp_path / f"out{number}", root)
        assert programs_of(build) == {"prog": sorted(SOURCES)}


def test_tables_say_where_things_have_got_to_and_links_are_done_again(project, tmp_path, prints):
    script = f"cd '{project}'; {MOVES['objects renamed']}; mv prog done; objcopy -I binary -O elf64-x86-64 lib/a.c y.o;"
    script += "cc -shared -Wl,-z,noexecstack a.out y.o -o y.so"
    output = tmp_path / "out"
    found = json.loads(prints("capture", "-o", output, "--root", project, "--json", "--", "sh", "-ec", script))
    assert (found["modules"], found["programs"], found["foreign"]) == (3, 2, {"y.so": ["y.o"]})
    rows = read_table(output / "objects.parquet", OBJECTS_OF_BUILD).to_pylist()
    assert {row["module"]: row["missing"] for row in rows} == dict.fromkeys(SOURCES, "")
    names = read_table(output / "programs.parquet", PROGRAMS_OF_PROJECT)["program"].to_pylist()
    assert names == ["done", "y.so"]
    released = REPOSITORY / "data/released/marginal-s0"
    relink = ("corpus", "relink", "--project", output, "--policy", released, "-o", tmp_path / "again", "--tools")
    prints(*relink, shutil.which("cc"), shutil.which("ld"))
    assert subprocess.run([tmp_path / "again/done"], check=False).returncode == 0
    assert (tmp_path / "again/done").read_bytes() != (project / "done").read_bytes()  # of other objects
