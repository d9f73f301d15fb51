"""Bytes by symbol: real objects and linked files, against readelf and against sizes by hand."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ObjectError
from mlgo.host.linker import section_sizes
from mlgo.host.toolchain import find_linker
from mlgo.objects.symbols import KINDS, bytes_by_symbol, folded
from tests.fakes.elf import readelf

SOURCE = """
int twice(int x) { return 2 * x; }
__attribute__((noinline)) static int own(int x) { return 3 * x + 1; }
const int table[5] = {1, 2, 3};
static int counter; int variable = 7;
int both(int x) { counter += x; return twice(x) * own(x) + table[x & 3] + variable + counter; }
"""


def table(data, kind):
    return {name: size for (name, of), size in bytes_by_symbol(data).items() if of == kind and name[0] != "["}


def sums(found):
    return {kind: sum(size for (_, of), size in found.items() if of == kind) for kind in KINDS}


def symbols_by_readelf(path, kind):
    rows = [line.split() for line in readelf(path, "-s").splitlines()]
    return {row[7]: int(row[2], 0) for row in rows if len(row) == 8 and row[3] == kind and row[6] != "UND"}


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("x86_64-linux-gnu", []),
        ("x86_64-linux-gnu", ["-ffunction-sections", "-fdata-sections"]),
        ("i386-linux-gnu", []),
        ("aarch64-linux-gnu", []),
        ("riscv64-linux-gnu", []),
        ("armv7a-linux-gnueabihf", ["-mthumb", "-ffunction-sections"]),
    ],
)
def test_objects_as_readelf_sees_them(compiled, target, options):
    path = compiled(SOURCE, "-Os", *options, target=target)
    data = path.read_bytes()
    assert table(data, "text") == symbols_by_readelf(path, "FUNC")
    assert table(data, "read_only") == {"table": 20}  # what can be written is not counted
    assert sums(bytes_by_symbol(data)) | {"total": sum(sums(bytes_by_symbol(data)).values())} == section_sizes(data)


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "i386-linux-gnu", "aarch64-linux-gnu"])
def test_unwind_entries_as_readelf_sees_them(compiled, target):
    path = compiled(SOURCE, "-Os", "-funwind-tables", target=target)
    functions = {int(row.split()[1], 16): row.split()[7] for row in readelf(path, "-s").splitlines() if " FUNC " in row}
    entries = [line.split() for line in readelf(path, "--debug-dump=frames").splitlines() if " FDE " in line]
    # offset, length without itself, identifier, FDE, cie=..., pc=START..END
    expected = {functions[int(row[5][3:].split("..")[0], 16)]: 4 + int(row[1], 16) for row in entries}
    assert len(expected) == 3
    assert table(path.read_bytes(), "unwind") == expected


def test_names_for_one_place_and_places_within_others(compiled):
    path = compiled(
        """
        .text
        .globl outer, outer_again, inner, tail
        .type outer, @function
        .type outer_again, @function
        .type inner, @function
        .type tail, @function
        outer: outer_again: .skip 4
        inner: .skip 6
        .size outer, 10
        .size outer_again, 8
        .size inner, 9
        .skip 3
        tail: .skip 1
        .size tail, 1000
        """,
        "-x",
        "assembler",
    )
    # outer has 0 to 10, the other name of its place nothing; inner has 10 to 13, what outer has not; tail ends with
    # the section, at 14.
    assert table(path.read_bytes(), "text") == {"outer": 10, "inner": 3, "tail": 1}


def test_without_names_all_is_rest(compiled):
    data = compiled(SOURCE, "-Os").read_bytes()
    sizes = section_sizes(data)
    assert bytes_by_symbol(data, named=False) == {(f"[{kind}]", kind): sizes[kind] for kind in KINDS}


FOLDED = {
    "f": "f f.llvm.1234567890 f.part.0 f.cold f.cold.1 f.constprop.0.isra.0.cold f.__uniq.4711.llvm.12.warm",
    "f.resolver": "f.resolver",  # another function
    "f.cold_path": "f.cold_path",
    "counter": "counter.12",
    "switch.table.f": "switch.table.f.7",
    ".str": ".str.3",
    ".llvm": ".llvm.5",
    ".5": ".5",
}


@pytest.mark.parametrize("expected", FOLDED)
def test_what_optimizers_add_goes(expected):
    assert {folded(name) for name in FOLDED[expected].split()} == {expected}


@given(st.text(alphabet=".0123456789acdfllmoprtv", max_size=30))
def test_folding_shortens_and_ends(name):
    once = folded(name)
    assert name.startswith(once)
    assert folded(once) == once
    assert bool(once) == bool(name)


@pytest.fixture(scope="module")
def shared_object(toolchain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("linked")
    (folder / "a.c").write_text(SOURCE)
    command = [*toolchain.back_end, "-Os", "-fPIC", "-c", folder / "a.c", "-o", folder / "a.o"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    linked = [find_linker(), "ld.lld", "-shared", "--eh-frame-hdr", folder / "a.o", "-o", folder / "a.so"]
    subprocess.run(linked, check=True, capture_output=True, timeout=60)
    return (folder / "a.o").read_bytes(), (folder / "a.so").read_bytes(), folder


def test_a_linked_file_as_its_object(shared_object):
    before, after, folder = shared_object
    assert table(after, "text") == table(before, "text") == symbols_by_readelf(folder / "a.so", "FUNC")
    # The index of the linked file has 8 bytes more for each entry.
    assert table(after, "unwind") == {name: size + 8 for name, size in table(before, "unwind").items()}
    assert sums(bytes_by_symbol(after)).items() <= section_sizes(after).items()


@given(
    st.booleans(), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8), st.data()
)
def test_damage_is_told_or_counts_nothing_twice(shared_object, linked, changes, data):
    damaged = bytearray(shared_object[linked])
    for place, value in changes:
        damaged[int(place * len(damaged))] = value
    damaged = bytes(damaged[: data.draw(st.integers(len(damaged) // 2, len(damaged)))] if not changes else damaged)
    try:
        expected = section_sizes(damaged)
        found = bytes_by_symbol(damaged)
    except ObjectError:
        return
    assert sums(found).items() <= expected.items()
    assert min(found.values(), default=1) > 0
