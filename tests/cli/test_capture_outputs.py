"""`mlgo capture` of builds that move what they make, and of places with odd names: as without mlgo, and captured."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from mlgo.base.artifacts import OBJECTS_OF_BUILD, PROGRAMS_OF_PROJECT, read_table
from mlgo.corpus.capture.builds import recorded_build
from mlgo.corpus.capture.databases import read_database
from mlgo.corpus.capture.invocations import run_build
from mlgo.errors import ConfigError
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


def test_tables_say_where_things_have_got_to(project, tmp_path, prints):
    script = f"cd '{project}'; {MOVES['objects renamed']}; mv prog done; objcopy -I binary -O elf64-x86-64 lib/a.c y.o;"
    script += "cc -shared -Wl,-z,noexecstack a.out y.o -o y.so"
    output = tmp_path / "out"
    found = json.loads(prints("capture", "-o", output, "--root", project, "--json", "--", "sh", "-ec", script))
    assert (found["modules"], found["programs"], found["foreign"]) == (3, 2, {"y.so": ["y.o"]})
    rows = read_table(output / "objects.parquet", OBJECTS_OF_BUILD).to_pylist()
    assert {row["module"]: row["missing"] for row in rows} == dict.fromkeys(SOURCES, "")
    names = read_table(output / "programs.parquet", PROGRAMS_OF_PROJECT)["program"].to_pylist()
    assert names == ["done", "y.so"]


@pytest.mark.slow
def test_links_of_what_was_moved_are_done_again(project, tmp_path, prints):
    output = tmp_path / "out"
    script = f"cd '{project}'; {MOVES['objects renamed']}; mv prog done"
    prints("capture", "-o", output, "--root", project, "--", "sh", "-ec", script)
    released = REPOSITORY / "data/released/marginal-s0"
    relink = ("corpus", "relink", "--project", output, "--policy", released, "-o", tmp_path / "again", "--tools")
    prints(*relink, shutil.which("cc"), shutil.which("ld"))
    assert subprocess.run([tmp_path / "again/done"], check=False).returncode == 0
    assert (tmp_path / "again/done").read_bytes() != (project / "done").read_bytes()  # of other objects


@pytest.mark.parametrize(
    ("variables", "shown"),
    [({"CC": "cc"}, "cc-is-cc\n"), ({"CC": "cc -O1"}, "cc-is-cc\n"), ({}, "cc\n")],
    ids=["a name", "several words", "nothing"],
)
def test_places_with_spaces_and_quotes(tmp_path, variables, shown):
    folder = tmp_path / 'it\'s a "$place"'
    folder.mkdir()
    (folder / "one.c").write_text("int main(void) { return 0; }\n")
    (folder / "Makefile").write_text("prog: one.o\n\t$(CC) $^ -o $@\n\techo $(CC) > said\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")} | variables
    assert run_build(["make", "-s", "-C", str(folder)], folder / "out", environment) == 0
    build = recorded_build(folder / "out", folder)
    assert programs_of(build) == {"prog": ["one.c"]}
    assert [unit.compile.options for unit in build.units] == [tuple(variables.get("CC", "").split()[1:])]
    assert (folder / "said").read_text() == shown


def test_a_folder_of_path_is_looked_through_as_a_shell_does(project, tmp_path):
    closed, searched, other = (tmp_path / name for name in ("closed", "searched", "other"))
    for folder in (closed, searched, other / "cc"):
        folder.mkdir(parents=True)
    (searched / "gcc").symlink_to(shutil.which("cc"))
    script = f"""
import os, sys
from pathlib import Path
from mlgo.corpus.capture.invocations import read_invocations, run_build
for path, mode in (({str(closed)!r}, 0), ({str(searched)!r}, 0o311)):
    os.chmod(path, mode)
os.chmod({str(tmp_path)!r}, 0o777)
if os.getuid() == 0:
    os.setuid(65534)
path = os.pathsep.join([*{[f"{closed}", f"{closed}/within", f"{searched}", f"{other}"]}, os.environ["PATH"]])
command = ["sh", "-c", "gcc -c lib/a.c -o {tmp_path}/a.o && cc -c lib/b.c -o {tmp_path}/b.o"]
assert run_build(command, Path({str(tmp_path / "out")!r}), {{**os.environ, "PATH": path}}) == 0
print([call.program for call in read_invocations(Path({str(tmp_path / "out")!r}) / "records")])
"""
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        folder.chmod(folder.stat().st_mode | 0o711)
    try:
        run = subprocess.run([sys.executable, "-c", script], cwd=project, text=True, capture_output=True, check=False)
        assert run.stdout == f"{[f'{searched}/gcc', shutil.which('cc')]}\n", run.stderr
    finally:
        for folder in (closed, searched):
            folder.chmod(0o755)


def test_a_relative_folder_of_path_and_one_that_path_cannot_hold(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    (project / "bin").mkdir()
    (project / "bin/gcc").symlink_to(shutil.which("cc"))
    monkeypatch.setenv("PATH", f"bin{os.pathsep}{os.environ['PATH']}")
    assert programs_of(run_in(project, "cd lib; gcc -shared a.c -o ../a.so", tmp_path / "out")) == {"a.so": ["lib/a.c"]}
    with pytest.raises(ConfigError, match="cannot stand in PATH"):
        run_build(["true"], tmp_path / "a:b")


def test_a_build_that_fails_at_once_ends_with_its_own_status(tmp_path, mlgo):
    for script, status in (("exit 7", 7), ("kill -9 $$", 137)):
        run = mlgo("capture", "-o", tmp_path / "out", "--", "sh", "-c", script)
        assert (run.returncode, run.stdout) == (status, "")
        assert "no compile was seen" not in run.stderr


WORDS = {
    "-DA=1 -DB\n-DC\t": ("-DA=1", "-DB", "-DC"),
    "-DA=it's\n": ("-DA=its\n",),
    '"-DA=\'" \'-DB="x"\' -DC=\\"y\\"': ("-DA='", '-DB="x"', '-DC="y"'),
    '"-DA=\\"a b\\"" -D\'B=c d\'': ('-DA="a b"', "-DB=c d"),
    "-DA=a\\ b '-DB=\\'' -DC='a\\b'": ("-DA=a b", "-DB='", "-DC=ab"),
    "@more.rsp -DA": ("-DM=1 2", "-DA"),
}


@pytest.mark.parametrize("text", WORDS)
def test_response_files_are_read_as_compilers_do(tmp_path, text):
    (tmp_path / "all.rsp").write_text(text)
    (tmp_path / "more.rsp").write_text('"-DM=1 2"')
    (tmp_path / "one.c").write_text("int x;\n")
    run_build(["sh", "-c", f"cd '{tmp_path}' && cc @all.rsp -c one.c"], tmp_path / "out")
    (unit,) = recorded_build(tmp_path / "out", tmp_path).units
    assert unit.compile.options == WORDS[text]
    database = [{"directory": str(tmp_path), "command": "cc @all.rsp -c one.c", "file": "one.c"}]
    (tmp_path / "cc.json").write_text(json.dumps(database))
    (step,) = read_database(tmp_path / "cc.json")
    assert step.options == WORDS[text]


def test_response_files_that_name_each_other_leave_one_source_out(tmp_path):
    (tmp_path / "a.rsp").write_text("@b.rsp @b.rsp")
    (tmp_path / "b.rsp").write_text("@a.rsp @a.rsp")
    database = [{"directory": str(tmp_path), "command": "cc @a.rsp -c one.c", "file": "one.c"}]
    (tmp_path / "cc.json").write_text(json.dumps(database))
    (step,) = read_database(tmp_path / "cc.json")
    assert step.problem.startswith("response: ")


@pytest.mark.parametrize(
    "command",
    [
        *("mlgo cc -- -Oz -c a.c", "/x/bin/mlgo cc --policy p --compiler clang -- -Oz -c a.c"),
        *("python3 -m ziglang cc -Oz -c a.c", "/x/zig cc -Oz -c a.c", "ccache mlgo cc -- -Oz -c a.c"),
        *("python3.11 -m mlgo c++ -- -Oz -c a.c", "python -m ziglang c++ -Oz -c a.c"),
    ],
)
def test_databases_of_our_own_compilers(tmp_path, command):
    (tmp_path / "cc.json").write_text(json.dumps([{"directory": str(tmp_path), "command": command, "file": "a.c"}]))
    (step,) = read_database(tmp_path / "cc.json")
    of_zig = () if "--compiler" in command else ("-fno-omit-frame-pointer",)
    assert (step.source, step.language, step.options, step.problem) == ("a.c", "c", (*of_zig, "-Oz"), "")


def test_mlgo_cc_is_the_compiler_of_a_build(tmp_path):
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    words = ["mlgo", "cc", "--plain", "--"]
    script = "import os, sys; os.execvp('cc', ['cc', *sys.argv[sys.argv.index('--') + 1 :]])"
    (tmp_path / "mlgo").write_text(f"#!{sys.executable}\n{script}\n")
    (tmp_path / "mlgo").chmod(0o755)
    environment = {**os.environ, "CC": " ".join(words), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    assert run_build(["make", "-sC", str(tmp_path), "one"], tmp_path / "out", environment) == 0
    build = recorded_build(tmp_path / "out", tmp_path)
    assert programs_of(build) == {"one": ["one.c"]}
    assert [unit.compile.options for unit in build.units] == [("-fno-omit-frame-pointer",)]
