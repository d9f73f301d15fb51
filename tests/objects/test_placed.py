"""Bytes of functions in linked files: real objects by the real compiler and linker, sizes by hand."""

import pytest

from mlgo.host.linker import LinkedFile, link_and_place, link_file, measure_file
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import find_linker
from mlgo.objects.symbols import function_extents
from tests.conftest import FLAGS
from tests.fakes.elf import readelf

MAIN = "int twice(int); int main(int count) { return twice(count) + 1; }"
TWICE = "int twice(int x) { return 2 * x; } int unused(int x) { return x; } static int own(void) { return 7; }"
THROWS = """
struct error { int code; };
int twice(int);
inline int checked(int x) { if (x < 0) throw error{1}; return twice(x); }
int main(int count) { try { return checked(count); } catch (error &one) { return one.code; } }
"""


@pytest.fixture
def objects(bitcode, front_end, toolchain, settings, task, tmp_path):
    """Compiles texts by name of the module."""

    def make(**texts):
        paths = {}
        for name, text in texts.items():
            if "throw" in text:
                (tmp_path / f"{name}.cpp").write_text(text)
                flags = [one for one in FLAGS["c++"] if one not in ("-fno-exceptions", "-fno-rtti")]
                compiled = tmp_path / f"{name}.bc"
                front_end.compile_to_bitcode(tmp_path, "c++", flags, f"{name}.cpp", compiled)
            else:
                compiled = bitcode(text)
            paths[name] = tmp_path / f"{name}.o"
            compile_plain(toolchain, compiled, settings, task=task, object_path=paths[name])
        return paths

    return make


def program(*modules, options=()):
    return LinkedFile("p", "prog", "program", (("object", modules),), options=options)


def test_functions_by_hand(objects):
    linked, functions = link_and_place(find_linker(), program("main", "twice"), objects(main=MAIN, twice=TWICE), 30.0)
    assert [(one.input, one.symbols) for one in functions] == [
        ("main", ("main",)),
        ("twice", ("twice",)),
        ("twice", ("unused",)),
    ]
    main, twice, unused = functions
    # push rax (1); call (5); inc eax (2); pop rcx (1); ret (1). twice: lea eax, [rdi + rdi] (3); ret (1).
    assert (main.text, twice.text) == (10, 4)
    assert unused.text == 3  # mov eax, edi (2); ret (1)
    # An entry: length, identifier, address, size, length of what follows, 4 + 4 + 4 + 4 + 1 bytes; then instructions,
    # up to a multiple of 4. main has 1 + 2 + 1 + 2 bytes of them: the stack grows and shrinks. The index has 8 each.
    assert main.unwind == 8 + 24
    assert twice.unwind == unused.unwind == 8 + 20
    # Functions begin at multiples of 4 or of their alignment; so nothing but padding is left of the code.
    sizes = measure_file(linked)
    assert 0 <= sizes["text"] - 17 < 16 * 3
    # Of the unwind tables: the first entry, which all have in common, the end mark, and the head of the index.
    assert sizes["unwind"] - sum(one.unwind for one in functions) == 24 + 4 + 12


def test_sizes_are_those_of_a_link_without_a_map(objects):
    paths = objects(main=MAIN, twice=TWICE)
    file = program("main", "twice", options=("--gc-sections",))
    linked, _ = link_and_place(find_linker(), file, paths, 30.0)
    assert measure_file(linked) == measure_file(link_file(find_linker(), file, paths, 30.0))


def test_a_table_of_exceptions_belongs_to_its_function(objects):
    paths = objects(main=THROWS, twice=TWICE)
    _, linked = link_and_place(find_linker(), program("main", "twice"), paths, 30.0)
    with_table = {one.symbols[0]: one.unwind for one in linked}
    _, alone = link_and_place(find_linker(), program("twice"), {"twice": paths["twice"]}, 30.0)
    assert {one.symbols[0]: one.unwind for one in alone}.items() <= with_table.items()
    (line,) = (line for line in readelf(paths["main"], "-S").splitlines() if " .gcc_except_table" in line)
    size = int(line.split("PROGBITS")[1].split()[2], 16)
    # main's entry has the address of its table as well, 4 bytes; its table is all there is.
    assert with_table["main"] - size in range(8 + 20 + 4, 8 + 64)
    assert with_table["twice"] == 8 + 20


def test_copies_count_where_they_are_kept(objects):
    shared = (
        "inline int both(int x) { while (x > 9) x -= x / 3; return x; } int %s(int x) { return both(x) + both(-x); }"
    )
    paths = objects(**{name: "// throw\n" + shared % name for name in ("one", "two")})
    file = LinkedFile("p", "lib.so", "shared", (("object", ("one", "two")),))
    _, functions = link_and_place(find_linker(), file, paths, 30.0)
    assert sorted((one.symbols[0], one.input) for one in functions) == [
        ("_Z3onei", "one"),
        ("_Z3twoi", "two"),
        ("_Z4bothi", "one"),
    ]


def test_without_an_index_code_is_still_told(objects):
    file = program("main", "twice", options=("--no-eh-frame-hdr",))
    data, functions = link_and_place(find_linker(), file, objects(main=MAIN, twice=TWICE), 30.0)
    assert [(one.text, one.unwind) for one in functions] == [(10, 0), (4, 0), (3, 0)]
    assert measure_file(data)["unwind"] > 0


@pytest.mark.parametrize("text", ["", "no map\n", "zzz\n 1 2 3\n", "  1000  1000  zz  1 .text\n"])
def test_what_is_no_map_tells_nothing(objects, text):
    linked = link_file(find_linker(), program("main", "twice"), objects(main=MAIN, twice=TWICE), 30.0)
    assert function_extents(linked, text) == []
