"""What command lines of compilers, archivers and linkers do."""

import re
import subprocess
from pathlib import Path

import pytest

from mlgo.corpus.capture.commands import ArchiveStep, CompileStep, LinkStep, steps_of
from mlgo.corpus.capture.invocations import ToolInvocation, tool_called
from mlgo.corpus.capture.options import portable
from mlgo.host.linker import relocation_of
from mlgo.host.toolchain import find_linker, zig_environment
from tests.corpus.capture.conftest import shell_calls, shell_steps

FOLDER = Path("/build")


def steps(line):
    return shell_steps(FOLDER, line)


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("cc", ["cc", "x86_64-linux-gnu-gcc-12"]),
        ("c++", ["clang++-19", "g++"]),
        ("ar", ["llvm-ar-19", "gcc-ar"]),
        ("ld", ["ld.lld", "aarch64-linux-gnu-ld"]),
        (None, ["make", "ccache", "gcc-ranlib", "clang-format", "clangd"]),
    ],
)
def test_tools_are_known_by_name(tool, names):
    assert {tool_called(name) for name in names} == {tool}


def test_a_compile_without_what_concerns_dependencies_and_warnings():
    line = "cc -DA=1 -I inc -MD -MT a.o -MF a.d -MQ x -Wp,-MD,a.p -Wall -pipe -O2 -g -fPIC -c src/a.c -o obj/a.o"
    (one,) = steps(line)
    options = ("-DA=1", "-I", "inc", "-O2", "-g", "-fPIC")
    assert one == CompileStep(FOLDER, "src/a.c", "c", options, Path("/build/obj/a.o"), program="cc")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("-Wno-narrowing -Wno-error=int-conversion -Wno-unused -Wno-error", ""),
        ("-Wp,-D_FORTIFY_SOURCE=2", "-D_FORTIFY_SOURCE=2"),
        ("-Wp,-UA,-MD,a.p,-DA=1 -Wp,-MMD,a.q -DB", "-UA -DA=1 -DB"),
    ],
)
def test_options_that_stay(options, kept):
    assert [step.options for step in steps(f"cc {options} -c a.c")] == [tuple(kept.split())]


@pytest.mark.parametrize(
    ("line", "compiles"),
    [
        ("g++ -c a.c", [("a.c", "c++", "a.o")]),
        ("gcc -c a.cc", [("a.cc", "c++", "a.o")]),
        ("cc -c -x c++ a.inc -x none b.c", [("a.inc", "c++", "a.o"), ("b.c", "c", "b.o")]),
        ("cc -c a.c sub/b.c", [("a.c", "c", "a.o"), ("sub/b.c", "c", "b.o")]),
        ("cc -c start.S", [("start.S", "assembler", "start.o")]),
        *((line, []) for line in ("cc --version", "cc -E a.c", "cc -M a.c", "cc -v", "cc -print-search-dirs")),
        ("ar t a.a", []),
    ],
)
def test_languages_and_objects_of_sources(line, compiles):
    assert [(step.source, step.language, step.output.name) for step in steps(line)] == compiles


def test_compile_and_link_at_once():
    one, two, link = steps("cc -O2 a.c lib/b.c -o prog -lm")
    assert one.temporary
    assert link.output == Path("/build/prog")
    assert link.inputs == (one.output, two.output)
    assert link.libraries == ("m",)
    one, two, link = steps("cc a/x.c b/x.c -o prog")
    assert link.inputs == (one.output, two.output)
    assert one.output != two.output


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


def test_a_link_by_the_linker_or_of_a_response_file_as_it_was():
    (link,) = steps("ld -m elf_x86_64 -e start -E -o prog a.o")
    assert (link.entry, link.export_dynamic) == ("start", True)
    assert link.options == ("-m", "elf_x86_64")
    assert [step.kind for step in steps("ld -r -o all.o a.o b.o")] == ["relocatable"]
    call = ToolInvocation("cc", "cc", FOLDER, ("@objects.rsp", "-o", "prog"), {"@objects.rsp": 'a.o "b c.o"\n'})
    (link,) = steps_of(call)
    assert link.inputs == (Path("/build/a.o"), Path("/build/b c.o"))


@pytest.mark.parametrize("options", ["", "-fPIC", "-fPIE", "-pie", "-fpie -no-pie", "-no-pie -pie", "-pie -fno-pie"])
def test_a_program_lies_where_zig_places_it(tmp_path, cache, options):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    line = ["cc", *options.split(), "-O1", "a.c", "-o", "a"]
    subprocess.run([find_linker(), *line], cwd=tmp_path, env=zig_environment(cache), check=True)
    *_, link = steps_of(ToolInvocation("cc", f"{find_linker()} cc", tmp_path, tuple(line[1:])))
    types = {2: "fixed", 3: "pie"}  # e_type of the ELF header: ET_EXEC, ET_DYN
    assert relocation_of(link.options, "pie") == types[(tmp_path / "a").read_bytes()[16]]
    *_, link = steps_of(ToolInvocation("cc", "mlgo cc --compiler clang --", tmp_path, ("a.c", "-o", "a")))
    assert link.options == ()


@pytest.mark.parametrize("options", ["-Oz", "-O2 -fomit-frame-pointer", "-momit-leaf-frame-pointer", "-pg"])
def test_a_source_of_zig_has_the_frame_pointers_that_zig_gives_it(front_end, tmp_path, cache, options):
    (tmp_path / "a.c").write_text("int g(int); int f(int x) { return g(x) + 1; }")
    line = ["cc", *options.split(), "-c", "a.c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o", "zig.bc"]
    subprocess.run([find_linker(), *line], cwd=tmp_path, env=zig_environment(cache), check=True)
    (step,) = steps_of(ToolInvocation("cc", f"{find_linker()} cc", tmp_path, (*options.split(), "-c", "a.c")))
    front_end.compile_to_bitcode(tmp_path, "c", portable(step.options).front_end, "a.c", tmp_path / "captured.bc")
    attributes = []
    for name in ("zig", "captured"):
        front_end.print_ir(tmp_path / f"{name}.bc", tmp_path / f"{name}.ll")
        attributes.append(re.findall(r'"frame-pointer"="([^"]*)"', (tmp_path / f"{name}.ll").read_text()))
    assert attributes[0] == attributes[1]


@pytest.mark.parametrize("operation", ["rcs", "-crs", "qc", "cru"])
def test_archives(operation):
    members = (Path("/build/a.o"), Path("/build/sub/b.o"))
    assert steps(f"ar {operation} lib.a a.o sub/b.o") == [ArchiveStep(Path("/build/lib.a"), members)]


def test_lines_of_a_shell_that_change_folders_or_run_cmake_or_a_cache():
    line = ": && /usr/bin/cmake -E rm -f libx.a && /usr/bin/ar qc libx.a a.o && /usr/bin/ranlib libx.a && :"
    assert [step.output.name for step in steps(line)] == ["libx.a"]
    (call,) = shell_calls("cd sub && ccache /usr/bin/c++ -DTEXT='\"a b\"' -c a.cc", FOLDER)
    assert (call.tool, call.program, call.folder) == ("c++", "ccache /usr/bin/c++", FOLDER / "sub")
    assert call.arguments == ('-DTEXT="a b"', "-c", "a.cc")


@pytest.mark.parametrize(
    ("command", "language"),
    [
        ("g++ -c a.c", "c++"),
        ("gcc -c a.c", "c"),
        ("gcc -x c++ -c a.c", "c++"),
        ("clang --driver-mode=g++ -c a.c", "c++"),
        ("cc -x c -c a.inc", "c"),
        ("g++ --language=c++ -c a.ipp", "c++"),
        ("gcc -x c++ -x none -c a.c", "c"),
        ("gcc -x assembler -c a.c", "assembler"),
        ("gcc -c a.inc", ""),
    ],
)
def test_the_compiler_and_its_options_decide_the_language(command, language):
    name, *arguments = command.split()
    tool = "c++" if name == "g++" else "cc"
    (step,) = steps_of(ToolInvocation(tool, name, Path("/b"), tuple(arguments)))
    assert step.language == language
