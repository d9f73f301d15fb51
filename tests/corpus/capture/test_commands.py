"""What command lines of compilers, archivers and linkers do."""

from pathlib import Path

import pytest

from mlgo.corpus.capture.commands import ArchiveStep, CompileStep, LinkStep, steps_of
from mlgo.corpus.capture.databases import shell_calls
from mlgo.corpus.capture.invocations import ToolInvocation, tool_called

FOLDER = Path("/build")


def steps(line):
    return [step for call in shell_calls(line, FOLDER) for step in steps_of(call)]


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("cc", "cc"),
        ("x86_64-linux-gnu-gcc-12", "cc"),
        ("clang++-19", "c++"),
        ("g++", "c++"),
        ("llvm-ar-19", "ar"),
        ("gcc-ar", "ar"),
        ("ld.lld", "ld"),
        ("aarch64-linux-gnu-ld", "ld"),
        ("make", None),
        ("ccache", None),
        ("gcc-ranlib", None),
        ("clang-format", None),
        ("clangd", None),
    ],
)
def test_tools_are_known_by_name(name, tool):
    assert tool_called(name) == tool


def test_a_compile_without_what_concerns_dependencies_and_warnings():
    line = "cc -DA=1 -I inc -MD -MT a.o -MF a.d -MQ x -Wp,-MD,a.p -Wall -pipe -O2 -g -fPIC -c src/a.c -o obj/a.o"
    (one,) = steps(line)
    options = ("-DA=1", "-I", "inc", "-O2", "-g", "-fPIC")
    assert one == CompileStep(FOLDER, "src/a.c", "c", options, Path("/build/obj/a.o"), program="cc")


def test_a_warning_that_is_an_error_unless_told_otherwise_stays_told():
    (one,) = steps("c++ -Wno-narrowing -Wno-error=int-conversion -Wno-unused -Wno-error -c a.cc")
    assert one.options == ("-Wno-narrowing", "-Wno-error=int-conversion")


def test_a_macro_for_the_preprocessor_alone_is_a_macro():
    (one,) = steps("gcc -Wp,-D_FORTIFY_SOURCE=2 -c a.c")
    assert one.options == ("-D_FORTIFY_SOURCE=2",)
    assert one.output == Path("/build/a.o")


def test_the_driver_for_cplusplus_takes_c_for_cplusplus():
    assert [step.language for step in steps("g++ -c a.c")] == ["c++"]
    assert [step.language for step in steps("gcc -c a.cc")] == ["c++"]


def test_a_language_that_is_named_counts_until_another_is():
    (one, two) = steps("cc -c -x c++ a.inc -x none b.c")
    assert [(one.source, one.language), (two.source, two.language)] == [("a.inc", "c++"), ("b.c", "c")]


def test_several_sources_in_a_call():
    assert [step.output.name for step in steps("cc -c a.c sub/b.c")] == ["a.o", "b.o"]


@pytest.mark.parametrize(
    "line", ["cc --version", "cc -E a.c", "cc -M a.c", "cc -v", "cc -print-search-dirs", "ar t a.a"]
)
def test_calls_that_make_no_object(line):
    assert steps(line) == []


def test_assembler_is_a_compile_of_another_language():
    assert [step.language for step in steps("cc -c start.S")] == ["assembler"]


def test_compile_and_link_at_once():
    one, two, link = steps("cc -O2 a.c lib/b.c -o prog -lm")
    assert one.temporary
    assert link.output == Path("/build/prog")
    assert link.inputs == (one.output, two.output)
    assert link.libraries == ("m",)


def test_a_link_by_a_driver():
    line = (
        "c++ -O3 -Wl,--gc-sections,-z,now -shared -Wl,-soname,libz.so -Wl,--version-script=map.txt -o libz.so.1 a.o "
        "-Wl,--whole-archive libx.a -Wl,--no-whole-archive -Llib -lm"
    )
    (link,) = steps(line)
    assert link == LinkStep(
        output=Path("/build/libz.so.1"),
        kind="shared",
        inputs=(Path("/build/a.o"), Path("/build/libx.a")),
        libraries=("m",),
        library_folders=(Path("/build/lib"),),
        whole=frozenset({Path("/build/libx.a")}),
        options=("--gc-sections", "-z", "now", "-soname", "libz.so"),
        version_script=Path("/build/map.txt"),
    )


def test_a_link_by_the_linker():
    (link,) = steps("ld -m elf_x86_64 -e start -E -o prog a.o")
    assert (link.entry, link.export_dynamic) == ("start", True)
    assert link.options == ("-m", "elf_x86_64")


def test_a_relocatable_link_makes_an_object():
    assert [step.kind for step in steps("ld -r -o all.o a.o b.o")] == ["relocatable"]


@pytest.mark.parametrize("operation", ["rcs", "-crs", "qc", "cru"])
def test_archives(operation):
    members = (Path("/build/a.o"), Path("/build/sub/b.o"))
    assert steps(f"ar {operation} lib.a a.o sub/b.o") == [ArchiveStep(Path("/build/lib.a"), members)]


def test_what_cmake_gives_to_a_shell():
    line = ": && /usr/bin/cmake -E rm -f libx.a && /usr/bin/ar qc libx.a a.o && /usr/bin/ranlib libx.a && :"
    assert [step.output.name for step in steps(line)] == ["libx.a"]


def test_folders_that_a_line_changes_into_and_compilers_behind_a_cache():
    (call,) = shell_calls("cd sub && ccache /usr/bin/c++ -DTEXT='\"a b\"' -c a.cc", FOLDER)
    assert (call.tool, call.program, call.folder) == ("c++", "ccache /usr/bin/c++", FOLDER / "sub")
    assert call.arguments == ('-DTEXT="a b"', "-c", "a.cc")


def test_response_files_as_they_were():
    call = ToolInvocation("cc", "cc", FOLDER, ("@objects.rsp", "-o", "prog"), {"@objects.rsp": 'a.o "b c.o"\n'})
    (link,) = steps_of(call)
    assert link.inputs == (Path("/build/a.o"), Path("/build/b c.o"))
