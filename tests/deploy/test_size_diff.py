"""Builds compared by size: real objects, archives and linked files."""

import os
import shutil
import subprocess
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.deploy.size_diff import ComparisonError, Limit, compare_builds
from mlgo.host.linker import section_sizes
from mlgo.host.toolchain import find_linker

BEFORE = """
int gone(int x) { return x; }
int same(int x) { return x + 1; }
int grown(int x) { return x; }
const int table[4] = {1, 2, 3, 4};
"""
AFTER = """
int same(int x) { return x + 1; }
int grown(int x) { return 2 * x + 3 * x * x; }
int come(int x) { return -x; }
const int table[6] = {1, 2, 3, 4, 5, 6};
"""


@pytest.fixture
def objects(compiled):
    return compiled(BEFORE, "-Os"), compiled(AFTER, "-Os")


def run_zig(*arguments):
    subprocess.run([find_linker(), *arguments], check=True, capture_output=True, timeout=60)


def archive(path, *members):
    run_zig("ar", "rcs", path, *members)
    return path


def linked(path, *objects):
    run_zig("ld.lld", "-shared", "--eh-frame-hdr", "-o", path, *objects)
    return path


def nm(path):
    """Sizes of code and constants by symbol, as binutils tell them."""
    if not shutil.which("nm"):
        pytest.skip("needs nm")
    run = subprocess.run(["nm", "-S", "--size-sort", path], check=True, capture_output=True, text=True)
    return {name: int(size, 16) for _, size, _, name in map(str.split, run.stdout.splitlines())}


def changes(found):
    return {one.name: one.growth for one in found.symbols if one.name[0] != "["}


def test_objects_as_nm_sees_them(objects):
    before, after = objects
    found = compare_builds(before, after)
    old, new = nm(before), nm(after)

    def code_of(sizes):
        return sum(size for kind, size in (sizes or {}).items() if kind != "unwind")

    code = {one.name: code_of(one.after) - code_of(one.before) for one in found.symbols if one.name[0] != "["}
    assert code == {name: new.get(name, 0) - old.get(name, 0) for name in {*old, *new} - {"same"}}
    assert code["table"] == 8
    by_name = {one.name: one for one in found.symbols}
    # An unwind entry of a function without a frame: length, identifier, address, size, length of what follows, padded
    # to 4 bytes, and the last one to the 8 bytes of the table's alignment.
    assert (by_name["come"].before, by_name["come"].after["unwind"]) == (None, 24)
    assert (by_name["gone"].before["unwind"], by_name["gone"].after) == (20, None)


def test_sections_are_those_of_what_ships_and_symbols_come_to_their_change(objects, tmp_path):
    paths = [linked(tmp_path / f"{number}.so", one) for number, one in enumerate(objects)]
    found = compare_builds(*paths)
    before, after = (section_sizes(path.read_bytes()) for path in paths)
    assert found.sections == {name: (before[name], after[name]) for name in before}
    assert sum(one.growth for one in found.symbols) == after["total"] - before["total"]
    growths = [abs(one.growth) for one in found.symbols]
    assert growths == sorted(growths, reverse=True)
    assert 0 not in growths


def test_archives_are_the_sum_of_their_members(objects, compiled, tmp_path):
    text = 'int grown_too(int x) { return 5 * x; } static const char text[] = "a"; const char *t = text;'
    other = compiled(text, "-Os")
    first, second = archive(tmp_path / "a.a", objects[0], other), archive(tmp_path / "b.a", objects[1], other)
    found, alone = compare_builds(first, second), compare_builds(*objects)
    assert changes(found) == changes(alone)
    for name, rest in section_sizes(other.read_bytes()).items():
        assert found.sections[name] == tuple(size + rest for size in alone.sections[name])


def test_members_that_are_no_objects_are_counted_apart(objects, bitcode, tmp_path):
    (tmp_path / "lto.o").write_bytes(bitcode("int f(void) { return 1; }").read_bytes())
    both = archive(tmp_path / "both.a", objects[0], tmp_path / "lto.o")
    found = compare_builds(both, both)
    assert (found.unread, found.sections["total"][0]) == (2, section_sizes(objects[0].read_bytes())["total"])
    with pytest.raises(ComparisonError, match=r"only\.a is neither an ELF file nor a static archive"):
        compare_builds(archive(tmp_path / "only.a", tmp_path / "lto.o"), both)


def test_a_stripped_file_has_sections_only(objects, tmp_path):
    first, second = (linked(tmp_path / name, one) for name, one in zip(("a.so", "b.so"), objects, strict=True))
    named = compare_builds(first, second)
    run_zig("ld.lld", "-shared", "--eh-frame-hdr", "--strip-all", "-o", second, objects[1])
    found = compare_builds(first, second)
    assert found.sections == named.sections
    assert found.stripped == ["b.so"]
    assert {one.name for one in found.symbols} <= {"[text]", "[read_only]", "[unwind]"}
    assert sum(one.growth for one in found.symbols) == sum(one.growth for one in named.symbols)


def test_what_optimizers_add_to_names_is_no_change(compiled):
    text = 'int f(int x) __asm__("f.llvm.{}"); int f(int x) {{ return x; }}'
    before, after = (compiled(text.format(number), "-Os") for number in (1, 22))
    for found in (compare_builds(before, after), compare_builds(before, before)):
        assert found.symbols == []
        assert [one.growth for one in found.files] == [0]
    assert b"f.llvm.22" in after.read_bytes()


@pytest.fixture
def folders(objects, tmp_path):
    before, after = both = tmp_path / "before", tmp_path / "after"
    for folder, one in zip(both, objects, strict=True):
        (folder / "lib").mkdir(parents=True)
        shutil.copy(one, folder / "lib" / "one.o")
        linked(folder / "lib.so", one)
        (folder / "README").write_text("no ELF")
        (folder / "lib.so.1").symlink_to("lib.so")
    shutil.copy(objects[0], before / "old.o")
    shutil.copy(objects[1], after / "new.o")
    return both


def test_folders_by_relative_path(folders, objects):
    found = compare_builds(*folders)
    assert {one.name: (one.before is not None, one.after is not None) for one in found.files} == {
        "lib/one.o": (True, True),
        "lib.so": (True, True),
        "old.o": (True, False),
        "new.o": (False, True),
    }
    assert found.forms == {"linked": 1, "objects": 3}
    sizes = [section_sizes(one.read_bytes())["total"] for one in objects]
    shipped = [section_sizes((folder / "lib.so").read_bytes())["total"] for folder in folders]
    assert found.sections["total"] == (2 * sizes[0] + shipped[0], 2 * sizes[1] + shipped[1])


def test_some_files_of_folders(folders):
    linked_only = compare_builds(*folders, forms=["linked"])
    assert [one.name for one in linked_only.files] == ["lib.so"]
    assert linked_only.files == compare_builds(*folders, only=["*.so"]).files
    seen = []
    compare_builds(*folders, only=["lib/*"], progress=lambda names: seen.extend(names) or names)
    assert seen == ["lib/one.o"]


def test_nothing_in_common(folders, tmp_path):
    (before, after), empty = folders, tmp_path / "empty"
    empty.mkdir()
    for other, only in ((after, ["old.o", "new.o"]), (after, ["README"]), (after, ["no such"]), (empty, [])):
        with pytest.raises(ComparisonError, match="no file in common"):
            compare_builds(before, other, only=only)


def test_what_cannot_be_compared(objects, compiled, folders, tmp_path):
    file, folder = objects[0], folders[0]
    arm = compiled(BEFORE, target="aarch64-linux-gnu")
    whole = archive(tmp_path / "whole.a", file).read_bytes()
    written = {"text": b"int main;", "cut.o": file.read_bytes()[:-30], "thin.a": b"!<thin>\n", "broken.a": whole[:-40]}
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
    big_endian = compiled(BEFORE, target="mips-linux-gnu")
    os.mkfifo(tmp_path / "fifo")
    for other, words in (
        (tmp_path / "missing", "missing does not exist"),
        (folder, "is a folder and .* is a file"),
        (tmp_path / "text", "text is neither an ELF file nor"),
        (arm, r"before for x86-64 \(64 bits\), after for AArch64 \(64 bits\)"),
        (folder / "lib.so", "before an object, after a linked file"),
        (tmp_path / "cut.o", "cut.o: the object's section table is cut short"),
        (tmp_path / "thin.a", "thin.a is a thin archive"),
        (tmp_path / "broken.a", "broken.a is damaged"),
        (big_endian, "not little-endian ELF"),
        (tmp_path / "fifo", "neither a folder nor a regular file"),
    ):
        with pytest.raises(ComparisonError, match=words):
            compare_builds(file, other)


@pytest.mark.parametrize(
    ("text", "before", "most"),
    [
        ("0.5%", 1000, 1005),
        ("0.1%", 999, 999),  # 0.999 bytes are less than one
        ("1KiB", 5, 1029),
        ("1.5kB", 0, 1500),
        ("300", 700, 1000),
        ("2 B", 0, 2),
        ("1 MiB", 1, 1048577),
        ("0%", 7, 7),
        ("100%", 0, 0),
    ],
)
def test_limits_by_hand(text, before, most):
    limit = Limit.of(text)
    assert not limit.is_exceeded(before, most)
    assert limit.is_exceeded(before, most + 1)
    assert not limit.is_exceeded(before, 0)


@pytest.mark.parametrize("text", ["", "%", "-1%", "1x", "1e3", "0.5 percent", ".5%", "nan", "1KiB2", "१"])
def test_no_limits(text):
    with pytest.raises(ValueError, match="is no limit"):
        Limit.of(text)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.decimals(0, 300, places=3))
def test_percent_is_exact(before, after, percent):
    exceeded = Fraction(after - before) * 100 > Fraction(percent) * before
    assert Limit.of(f"{percent}%").is_exceeded(before, after) == exceeded
