"""Linking with the real linker."""

import pytest

from mlgo.base.ships import Ships
from mlgo.errors import CompileTimeout, LinkError
from mlgo.host.linker import (
    LinkedFile,
    await_linker,
    differing_options,
    generation_options,
    link_arguments,
    link_command,
    relocation_of,
    ships_of,
    why_unmerged,
)
from mlgo.host.process import Child
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import find_linker
from mlgo.objects.comdat import comdat_groups
from mlgo.objects.elf import executable_size, read_sections, text_size
from tests.fakes.elf import deduplicated_text

# Two instances with the same code; noinline keeps both as functions, in groups of their own.
HEADER = """
extern int elsewhere(int);
template <int N> __attribute__((noinline)) int twin(int x) {
  for (int i = 0; i < 40; ++i) x = elsewhere(x ^ i) * 3 + elsewhere(x);
  return x;
}
"""
FIRST = HEADER + "int one(int x) { return twin<1>(x) + twin<2>(x); }\nint shared() { return 1; }"
SECOND = HEADER + "int two(int x) { return twin<1>(x + 7); }\nint shared() { return 2; }"


def size(objects, *options, timeout_s=60.0):
    """Text of a shared object of these, which is written beside the first."""
    output = objects[0].with_name("linked.so")
    command = link_command(find_linker(), output, ["-shared", "-Bsymbolic", *options, *map(str, objects)])
    await_linker(Child(command), timeout_s)
    return text_size(read_sections(output.read_bytes()))


@pytest.fixture
def objects(compiled):
    return [compiled(text, "-Oz", language="c++") for text in (FIRST, SECOND)]


def test_copies_go_and_all_else_stays(objects, leaves_nothing):
    first, second = objects
    with leaves_nothing():
        alone = size([first])
        both = size(objects)
    text = text_size(read_sections(second.read_bytes()))
    # Of the second object two small functions remain; its copy of the loop, which is most of it, goes.
    assert alone < both < alone + text
    assert size(objects, "--icf=all") < both  # identical code is folded on demand
    # The same object again brings its own functions a second time, aligned, but no group.
    data = first.read_bytes()
    text = text_size(read_sections(data))
    own = deduplicated_text([(text, comdat_groups(data))] * 2) - text
    assert alone < size([first, first]) <= alone + own + 2 * 16


def test_tables_of_the_dynamic_linker_do_not_count(compiled):
    short, long = (compiled(f"int {name}(int x) {{ return x + 1; }}", "-Oz") for name in ("f", "f" * 5000))
    assert size([short]) == size([long])


def test_code_that_is_not_position_independent_links(toolchain, settings, tmp_path):
    source = tmp_path / "absolute.ll"
    source.write_text(
        'target triple = "x86_64-unknown-linux-gnu"\n'
        "@a = global i32 3\n"
        'module asm ".text\\0A movabs $a, %rax"\n'  # 10 bytes, R_X86_64_64 in the middle of the code
    )
    compile_plain(toolchain, source, settings, object_path=tmp_path / "a.o")
    code = executable_size(read_sections((tmp_path / "a.o").read_bytes()))
    assert code >= 10
    assert size([tmp_path / "a.o"]) >= code


@pytest.mark.parametrize("visibility", ["default", "hidden", "protected"])
def test_symbols_of_modules_that_are_not_there_stay_open(compiled, visibility):
    attribute = f'__attribute__((visibility("{visibility}")))'
    text = f"{attribute} extern int missing(int); {attribute} int f(int x) {{ return missing(x) + 1; }}"
    path = compiled(text, "-Oz")
    code = executable_size(read_sections(path.read_bytes()))
    assert size([path]) >= code  # nothing exported is no reason to drop it


def test_what_the_linker_refuses(objects, tmp_path, leaves_nothing):
    broken = tmp_path / "broken.o"
    broken.write_bytes(objects[0].read_bytes()[:200])
    with leaves_nothing(), pytest.raises(LinkError, match=r"ended with status 1: .*error: broken\.o") as caught:
        size([objects[1], broken])
    assert str(tmp_path) not in str(caught.value)
    with leaves_nothing(), pytest.raises(CompileTimeout, match="the linker did not end within 0 s"):
        size(objects, timeout_s=0.0)


def test_files_of_other_formats_are_refused(compiled):
    path = compiled("int f(void) { return 1; }", target="aarch64-macos-none")
    with pytest.raises(LinkError, match="linked files are measured for ELF targets alone"):
        size([path])


@pytest.mark.parametrize(
    ("words", "default", "relocation"),
    [
        ("-o x a.o", "fixed", "fixed"),
        ("-o x a.o", "pie", "pie"),
        ("-static", "pie", "fixed"),
        ("-static -pie --no-dynamic-linker", "fixed", "pie"),  # as clang links -static-pie
        ("-static-pie", "fixed", "pie"),
        ("-pie -no-pie", "pie", "fixed"),
        ("-no-pie --pie", "fixed", "pie"),
        ("-pie -shared", "fixed", "shared"),
        ("-Bshareable", "fixed", "shared"),
        ("-r", "pie", "shared"),
        ("-z pie -rpath shared", "fixed", "fixed"),  # which are values
    ],
)
def test_the_place_of_code_by_the_words_of_a_link(words, default, relocation):
    assert relocation_of(words.split(), default) == relocation


def linked_file(kind="program", options=(), **more):
    return LinkedFile("p", "file", kind, (("object", ("a.c", "b.c")),), tuple(options), **more)


@pytest.mark.parametrize(
    ("file", "options", "record"),
    [
        (linked_file(), ([], []), "objects,relocation=pie,exports=entry,sections=no,folding=none,unwind=yes"),
        (
            linked_file(options=["-static", "--icf", "safe", "--icf=all"]),
            (
                ["-fno-function-sections", "-ffunction-sections"],
                ["-ffunction-sections", "-fno-asynchronous-unwind-tables"],
            ),
            "objects,relocation=fixed,exports=entry,sections=yes,folding=all,unwind=yes",
        ),
        (  # one source for a fixed address is enough: in a program that may lie anywhere it could not be
            linked_file(export_dynamic=True),
            (["-fPIC"], ["-fPIC", "-fno-pie"]),
            "objects,relocation=fixed,exports=all,sections=no,folding=none,unwind=yes",
        ),
        (
            linked_file("shared", version_script="{ global: f; local: *; };"),
            (
                ["-fno-asynchronous-unwind-tables"],
                ["-fno-unwind-tables", "-ffunction-sections", "-fno-function-sections"],
            ),
            "objects,relocation=shared,exports=listed,sections=no,folding=none,unwind=no",
        ),
    ],
)
def test_what_ships_by_the_flags_of_a_build(file, options, record):
    assert str(ships_of(file, options)) == record
    assert ships_of(file, options, "whole").sections  # as full link-time optimization has it


def test_options_of_the_compile_of_a_merged_module():
    both = ["-ffunction-sections", "-fPIC", "-mcx16", "-fno-common"], ["-fno-common", "-fno-pic", "-fPIC"]
    sections = ["-ffunction-sections", "-fdata-sections"]
    assert generation_options(Ships(relocation="fixed"), both) == ["-fno-common", "-fno-pic", *sections]
    without = ["-fno-common", "-fPIE", "-fno-function-sections", "-fno-data-sections"]
    assert generation_options(Ships(relocation="pie", sections=False), both) == without
    assert generation_options(Ships(relocation="shared"), []) == ["-fPIC", *sections]
    assert differing_options(both) == ["-ffunction-sections", "-fno-pic", "-mcx16"]


@pytest.mark.parametrize(
    ("file", "record", "before", "behind"),
    [
        (linked_file(options=["-pie", "--icf=all", "-lm"]), "", "-pie --icf=all -e main", ""),
        (linked_file(options=["-pie"]), "relocation=fixed,folding=none", "-pie -e main", "-no-pie --icf=none"),
        (linked_file(), "relocation=pie,exports=all", "-e main", "-pie --export-dynamic"),
        (linked_file(export_dynamic=True), "exports=entry", "-e main --export-dynamic", "--no-export-dynamic"),
        (linked_file(), "relocation=shared", "-e main", "-shared"),
        (linked_file("shared", version_script="{};"), "exports=all", "-shared --undefined-version", "--export-dynamic"),
        (linked_file("shared"), "relocation=fixed", "-shared --undefined-version", ""),  # which it stays
    ],
)
def test_words_of_a_link_under_a_record(tmp_path, file, record, before, behind):
    paths = {name: tmp_path / name for name in file.modules}
    ships = Ships.of(record) if record else Ships()
    found = link_arguments(file, paths, tmp_path, ships)
    assert found == [*before.split(), *map(str, paths.values()), *behind.split()]
    with pytest.raises(LinkError, match="file has no version script"):
        link_arguments(linked_file(), paths, tmp_path, Ships(exports="listed"))


def test_links_that_cannot_be_of_one_module():
    for word in ("-r", "--relocatable", "-T", "-Tlayout.ld", "--script=layout.ld", "-dT"):
        assert why_unmerged(["-o", "x", word]).startswith(f"{word}: ")
    assert not why_unmerged(["-rpath", "/lib", "-Ttext=0x1000", "-rdynamic", "--version-script=exports"])
