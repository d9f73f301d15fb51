"""A wheel of a small source distribution, built by pip with a build system of its own, without any network."""

import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo.base.artifacts import OBJECTS_OF_BUILD, PROGRAMS_OF_PROJECT, PROJECT, read_table
from mlgo.corpus.capture.builds import read_build
from mlgo.corpus.capture.invocations import read_invocations, tool_and_options
from mlgo.corpus.capture.project import Extraction
from mlgo.corpus.capture.wheels import wheel_project
from mlgo.corpus.recipe import Wheel
from mlgo.errors import CorpusError
from mlgo.host.linker import LinkedFile
from tests.corpus.capture.conftest import shell_steps

EXTENSION = """\
#include <Python.h>
#include "generated.h"
int shared_helper(int x) { return x + HELP; }
static PyObject *add(PyObject *self, PyObject *x) {
  (void)self;
  return PyLong_FromLong(shared_helper((int)PyLong_AsLong(x)));
}
static PyMethodDef methods[] = {{"add", add, METH_O, __FILE__}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "thing", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_thing(void) { return PyModule_Create(&module); }
"""
BACKEND = """\
import os, shlex, subprocess, sysconfig, tempfile, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    os.makedirs("made", exist_ok=True)
    with open("made/generated.h", "w") as file:
        file.write("#define HELP 1\\n")
    compiler, suffix = shlex.split(os.environ["CC"]), sysconfig.get_config_var("EXT_SUFFIX")
    include = "-I" + sysconfig.get_paths()["include"]
    source = os.path.abspath("thing.c")
    options = ["-O2", "-march=native", "-mtune=native", "-fPIC", "-DTEXT='a  b'", "-Imade", include]
    subprocess.run([*compiler, *options, "-c", source, "-o", "made/thing.o"], check=True)
    subprocess.run(["gcc", "-O2", "-c", "unused.c", "-o", "made/unused.o"], check=True)
    subprocess.run([*compiler, "-shared", "-nostdlib", "made/unused.o", "-o", "/dev/null"], check=True)
    name = "thing-1.0-py3-none-any.whl"
    with (
        zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel,
        tempfile.TemporaryDirectory() as folder,  # nothing of it is left when the build has ended
    ):
        subprocess.run([*compiler, "-shared", "-nostdlib", "made/thing.o", "-o", folder + "/new.so"], check=True)
        wheel.write(folder + "/new.so", "thing" + suffix)
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("thing-1.0.dist-info/RECORD", "")
    return name
"""
PROJECT_TOML = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
FILES = {
    "pyproject.toml": PROJECT_TOML,
    "backend.py": BACKEND,
    "PKG-INFO": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
    "thing.c": EXTENSION,
    "unused.c": "int unused(void) { return 3; }\n",
}


def sdist_of(folder, files):
    """A source distribution as downloads keep it: named by its hash."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"thing-1.0/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    digest = hashlib.sha256(data.getvalue()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{digest}-thing-1.0.tar.gz"
    path.write_bytes(data.getvalue())
    return path, digest


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def captured(shared, tmp_path_factory, mlgo):
    _, digest = sdist_of(shared / "sdists", FILES)
    output = tmp_path_factory.mktemp("captured") / "thing"
    run = mlgo(
        *("capture", "-o", str(output), "--sdist", "thing==1.0", "--sha256", digest, "--json"), MLGO_SHARED=str(shared)
    )
    assert run.returncode == 0, run.stderr
    nothing = {key: {} for key in ("skipped", "left_out", "edited", "foreign", "missed")}
    assert json.loads(run.stdout) == {"modules": 1, "programs": 1, **nothing}
    return output


def test_the_wheel_is_one_that_people_could_install(captured, tmp_path):
    (wheel,) = (captured / "wheel").iterdir()
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "import thing; assert thing.add(41) == 42"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


def test_what_people_install_is_the_program_and_exports_its_entry_alone(captured):
    (row,) = read_table(captured / "programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()
    assert row["program"].startswith("tmp/thing.")
    assert row["version_script"] == "{ global: PyInit_*; local: *; };\n"
    assert LinkedFile.of_row(row).modules == ("thing.c",)  # unused.c is in no file of the wheel


def test_modules_hold_no_name_of_a_folder(captured):
    (row,) = read_table(captured / "project.parquet", PROJECT).to_pylist()
    assert row["module"] == "thing.c"
    assert str(captured).encode() not in row["bitcode"]
    assert b"thing.c" in row["bitcode"]


def test_a_module_does_not_depend_on_the_machine_that_builds(captured):
    (call,) = (call for call in read_invocations(captured / "records") if call.arguments[-1] == "made/thing.o")
    assert call.arguments[:3] == ("-O2", "-fPIC", "-DTEXT='a  b'")
    (row,) = read_table(captured / "objects.parquet", OBJECTS_OF_BUILD).to_pylist()
    assert not any("native" in one for one in row["options"])


def test_gcc_is_the_same_compiler_in_the_build_of_a_wheel(captured):
    calls = [call for call in read_invocations(captured / "records") if "unused.c" in call.arguments]
    options = ("-target", "x86_64-linux-gnu", "-fomit-frame-pointer")
    assert [tool_and_options(shlex.split(call.program)) for call in calls] == [("cc", options)]


def test_the_build_is_reproduced(captured, shared, mlgo):
    (row,) = read_table(captured / "objects.parquet", OBJECTS_OF_BUILD).to_pylist()
    assert (row["driver"], row["level"]) == ("zig", "-O2")
    options = ["-fno-omit-frame-pointer", "-target", "x86_64-linux-gnu", "-fomit-frame-pointer"]
    assert row["options"][:4] == options
    run = mlgo("corpus", "verify", "--project", str(captured), "--json", MLGO_SHARED=str(shared))
    summary = json.loads(run.stdout)
    assert (summary["modules"], summary["reproduced"], summary["same_contents"]) == (1, 1, 1)


@pytest.mark.slow
def test_a_recipe_may_be_a_wheel(captured, shared, tmp_path):
    _, digest = sdist_of(shared / "sdists", FILES)
    recipe = {"name": "thing", "version": "1.0", "sha256": digest, "license": "MIT", "wheel": {}}
    (tmp_path / "thing.yaml").write_text(json.dumps(recipe))
    found = []
    for place in ("one", "two"):
        modules, programs = tmp_path / place / "modules.parquet", tmp_path / place / "programs.parquet"
        options = ["--project", "known-as", "--recipe", tmp_path / "thing.yaml", "--output", modules]
        command = [sys.executable, "scripts/build_project.py", *options, "--programs", programs]
        environment = {**os.environ, "MLGO_SHARED": str(shared)}
        subprocess.run(command, cwd=Path(__file__).parents[2], env=environment, check=True)
        found.append((read_table(modules, PROJECT).to_pylist(), read_table(programs, PROGRAMS_OF_PROJECT).to_pylist()))
    (row,), (program,) = found[0]
    assert (row["project"], row["module"], row["licence"]) == ("known-as", "thing.c", "MIT")
    assert (program["project"], program["parts"]) == ("known-as", [{"kind": "object", "modules": ["thing.c"]}])
    assert found[0] == found[1]  # nothing of it depends on the folder of the build
    assert row["bitcode"] == read_table(captured / "project.parquet", PROJECT)["bitcode"][0].as_py()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"thing.c": "#error it is broken"}, "cannot be built as a wheel: .*thing.c:1:2: error: it is broken"),
        pytest.param(
            {"backend.py": BACKEND.replace("thing.c", "gone.c")},
            "cannot be built as a wheel: .*error: ",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"backend.py": BACKEND.replace('wheel.write(folder + "/new.so", "thing" + suffix)', "pass")},
            "holds no linked file",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_build_that_does_not_work(tmp_path, shared, front_end, changes, message):
    sdist, _ = sdist_of(tmp_path, FILES | changes)
    extraction = Extraction("thing", "", replace(front_end, cache_dir=shared / "zig-cache"), 1)
    log = tmp_path / "logs/pip.log"
    with pytest.raises(CorpusError, match=message) as failure:
        wheel_project(sdist, tmp_path / "out", Wheel(), extraction, log)
    assert log.read_text()
    assert "holds no" in message or str(failure.value).endswith(f"all it said is in {log}")


def test_no_name_is_by_chance():
    # A build requirement's source and all objects lie in pip's temporary folders.
    lines = [
        "c++ -c /w/tmp/env-x7/lib/nb.cpp -o /w/tmp/t9/nb.o",
        "cc -c a.c -o /w/tmp/t9/a.o",
        "cc -DB -c a.c -o /w/tmp/t9/b.o",
        "c++ -shared -o m.so /w/tmp/t9/nb.o /w/tmp/t9/a.o /w/tmp/t9/b.o /w/tmp/q.o",
    ]
    root, temporary = Path("/w/source"), [Path("/w/tmp/env-x7"), Path("/w/tmp/t9"), Path("/w")]
    build = read_build(shell_steps(root, *lines), root, temporary)
    names = ("tmp/lib/nb.cpp", "a.c@tmp/a.o", "a.c@tmp/b.o")
    assert tuple(one.name for one in build.units) == names
    (program,) = build.programs
    assert [part.units for part in program.parts] == [(name,) for name in names]
    assert program.foreign == ("tmp/tmp/q.o",)


@pytest.mark.parametrize("words", [["--sdist", "thing"], ["--sdist", "thing==1", "--", "make"]])
def test_what_is_asked_is_clear(words, tmp_path, refuses):
    refuses("capture", "-o", tmp_path / "out", *words)
