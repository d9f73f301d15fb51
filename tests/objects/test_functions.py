"""Bytes by function against the symbol table and the unwind table that readelf shows, and calls that clang reports."""

import re

import pytest

from mlgo.errors import RemarkError
from mlgo.objects.elf import function_code, read_sections, text_size
from mlgo.objects.remarks import read_calls
from mlgo.objects.symbols import bytes_by_function
from tests.fakes.elf import readelf

SOURCE = """
static int twice(int x) { return 2 * x + 1; }
__attribute__((noinline)) int far(int x) { return twice(x) * x; }
int same(int x) __attribute__((alias("far")));
int main(int argc, char **argv) { return far(argc) + twice(argc); }
"""


@pytest.mark.parametrize("options", [(), ("-ffunction-sections",)])
def test_code_and_unwind_entries_add_up(compiled, options):
    path = compiled(SOURCE, "-Oz", *options)
    data = path.read_bytes()
    found, code = bytes_by_function(data), function_code(data)
    assert set(found) == {name.encode() for name in code} == {b"far", b"main", b"same"}
    assert found[b"same"] == 0  # another name of far's place
    shown = readelf(path, "--debug-dump=frames")
    entries = [int(length, 16) + 4 for length in re.findall(r"^\w+ (\w{16}) \w+ FDE", shown, re.MULTILINE)]
    assert len(entries) == 2
    assert sum(found.values()) == len(code["far"] + code["main"]) + sum(entries)
    assert sum(found.values()) <= text_size(read_sections(data))


def test_a_function_at_an_absolute_address_counts_in_full(compiled):
    text = '__asm__(".globl fixed; .type fixed, @function; .set fixed, 0x1000; .size fixed, 8");'
    data = compiled(text).read_bytes()
    assert bytes_by_function(data) == bytes_by_function(data, {b"group": 2}) == {b"fixed": 8}


def remark(caller: str, callee: str, blocks: int = 1, taken: str = "true") -> str:
    head = "--- !Passed\nPass:            inline-ml\nName:            InliningSuccess\n"
    arguments = f"Function:        {caller}\nArgs:\n  - Callee:          {callee}\n"
    return f"{head}{arguments}  - callee_basic_block_count: '{blocks}'\n  - ShouldInline:    '{taken}'\n...\n"


def test_a_stream_by_hand():
    data = (remark("main", "f") + remark("'a''b'", "_ZN1aD2Ev")).encode()
    assert read_calls(data, 2) == [(b"main", b"f"), (b"a'b", b"_ZN1aD2Ev")]
    assert read_calls(b"", 0) == []
    stop = b"--- !Missed\nPass:            inline-ml\nName:            ForceStop\nFunction:        main\nArgs:\n...\n"
    assert read_calls(stop + data + stop, 2) == read_calls(data, 2)
    assert read_calls(stop, 0) == []
    with pytest.raises(RemarkError, match="cut short"):
        read_calls(data[:-10], 2)
    with pytest.raises(RemarkError, match="no callee"):
        read_calls(data.replace(b"Callee:          f", b"Other:           f"), 2)


def test_calls_that_must_be_inlined_are_not_asked_about():
    told = [remark("a", "f", 3), remark("a", "must", 3), remark("a", "must", 3), remark("b", "g", 5, "false")]
    data = "".join([*told, remark("b", "must", 5)]).encode()
    assert read_calls(data, 2) == [(b"a", b"f"), (b"b", b"g")]
    # As many remarks as questions: each is one, whatever its features.
    assert len(read_calls(data, 5)) == 5
    # One that differs from the question before was asked about, and so its function is not such a one.
    with pytest.raises(RemarkError, match="asked 2 questions and reported 6 calls"):
        read_calls(data + remark("c", "must", 1).encode(), 2)
    # Which of these were asked about is not known.
    with pytest.raises(RemarkError, match="asked 4 questions and reported 5 calls"):
        read_calls(data, 4)


INLINE = """
inline int twice(int x) { static int calls; return 2 * x + ++calls; }
int (*taken)(int) = twice;
"""


def test_a_function_that_several_objects_carry_counts_by_its_share(compiled):
    data = compiled(INLINE, "-Oz", language="c++").read_bytes()
    whole, shared = bytes_by_function(data), bytes_by_function(data, {b"_Z5twicei": 4})
    assert shared == {name: size / 4 for name, size in whole.items()}
    assert list(whole) == [b"_Z5twicei"]
    assert bytes_by_function(data, {}) == whole
