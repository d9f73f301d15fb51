"""Build folders of CMake by its file API, with the real CMake."""

import shutil
import subprocess

import pytest

from mlgo.corpus.capture.databases import is_cmake, read_cmake
from mlgo.corpus.capture.importers import import_build
from mlgo.errors import CorpusError
from tests.corpus.capture.conftest import CMAKE_INDEX, write_model, write_reply

LISTS = """\
cmake_minimum_required(VERSION 3.14)
project(p C CXX)
add_library(static STATIC lib/a.c)
target_compile_definitions(static PRIVATE "TEXT=\\"a b\\"")
target_include_directories(static PUBLIC lib)
add_library(objects OBJECT lib/o.cpp)
add_library(shared SHARED lib/s.cpp)
target_link_options(shared PRIVATE "-Wl,--version-script=${CMAKE_SOURCE_DIR}/lib/x.map")
add_executable(prog main.cpp $<TARGET_OBJECTS:objects>)
target_link_libraries(prog static shared m)
add_subdirectory(sub)
"""
SUB = """\
add_library(sub STATIC ../lib/s.cpp)
add_executable(other ../main.cpp)
target_link_libraries(other sub static)
"""


SOURCES = dict.fromkeys(("lib/a.c", "lib/o.cpp", "lib/s.cpp", "main.cpp"), "int main() {}\n")
FILES = SOURCES | {"CMakeLists.txt": LISTS, "sub/CMakeLists.txt": SUB, "lib/x.map": "{global: s;};"}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / "a project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a project" / name).write_text(text)
    return tmp_path / "a project"


def configure(project):
    subprocess.run(["cmake", "-G", "Unix Makefiles", "-B", "build"], cwd=project, check=True, capture_output=True)


@pytest.mark.skipif(not all(map(shutil.which, ("cmake", "make", "c++"))), reason="needs CMake, make and a C++ compiler")
def test_targets_become_units_and_programs(project):
    configure(project)
    with pytest.raises(CorpusError, match=r"no reply of CMake's file API.*run cmake .*build, then this again"):
        import_build(project / "build")
    configure(project)
    assert is_cmake(project / "build")
    build = import_build(project / "build")
    units = {unit.name: unit.compile for unit in build.units}
    _, twice = (name for name in units if name.startswith("lib/s.cpp@"))
    assert {"lib/a.c", "lib/o.cpp"} < units.keys()
    assert units["lib/a.c"].language == "c"
    assert units["lib/a.c"].options[:2] == ('-DTEXT="a b"', f"-I{project}/lib")
    programs = {one.name: one for one in build.programs}
    assert set(programs) == {"build/prog", "build/libshared.so", "build/sub/other"}
    parts = [(part.kind, [name.partition("@")[0] for name in part.units]) for part in programs["build/prog"].parts]
    assert parts == [("object", ["main.cpp"]), ("object", ["lib/o.cpp"]), ("archive", ["lib/a.c"])]
    assert (programs["build/prog"].foreign, programs["build/prog"].link.libraries) == (("build/libshared.so",), ("m",))
    assert programs["build/libshared.so"].link.version_script == project / "lib/x.map"
    archives = [part.units for part in programs["build/sub/other"].parts if part.kind == "archive"]
    assert archives == [(twice,), ("lib/a.c",)]
    subprocess.run(["make", "-C", project / "build", "-sk"], check=False, capture_output=True)
    assert [unit.compile.output for unit in build.units if not unit.compile.output.is_file()] == []


PATHS = {"source": "/src", "build": "/src/build"}
OUTSIDE = {"kind": "codemodel", "jsonFile": "../../../../secret.json"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"index_1": "{"}, "cannot be read as JSON"),
        ({"index_1": {}}, "is no reply of CMake's file API: objects: Field required"),
        ({"index_1": {"objects": []}}, "has no codemodel; run cmake"),
        ({"index_1": CMAKE_INDEX}, r"model\.json cannot be read"),
        ({"index_1": CMAKE_INDEX, "model": {"paths": PATHS, "configurations": []}}, "has no configuration"),
        ({"index_1": {"objects": [OUTSIDE]}}, r"\.\./\.\./\.\./\.\./secret\.json lies outside of the reply"),
    ],
)
def test_replies_that_cannot_be_read(tmp_path, files, message):
    write_reply(tmp_path, **files)
    with pytest.raises(CorpusError, match=message):
        read_cmake(tmp_path)


def test_several_configurations_and_options_that_lie_elsewhere(tmp_path):
    write_model("/src", tmp_path, "@/etc/hostname", [0, 7], ("Debug", "Release"))
    build = import_build(tmp_path)
    assert build.notes == ("of the configurations Debug, Release, the first is taken",)
    (unit,) = build.units
    assert "@/etc/hostname, a file with further arguments, lies outside of the build's folder" in unit.compile.problem
