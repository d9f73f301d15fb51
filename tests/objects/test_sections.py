"""Sizes of objects for several targets, by the real compiler; instructions and constants are counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ObjectError
from mlgo.objects.elf import executable_size, object_sections, text_size

# One function of an exact length, 16 bytes of constants, 12 of data and 40 that are zero.
SOURCE = """
__attribute__((naked)) void f(void) { __asm__(".byte 1,2,3,4,5,6,7,8"); }
const int table[4] = {1, 2, 3, 4};
int data[3] = {1, 2, 3};
int zeros[10];
"""
TARGETS = [
    "x86_64-linux-gnu",
    "aarch64-linux-gnu",
    "riscv64-linux-gnu",
    "arm-linux-gnueabihf",
    "riscv32-linux-gnu",
    "aarch64-macos-none",
    "x86_64-windows-gnu",
    "aarch64-windows-gnu",
]


@pytest.fixture
def sections(compiled):
    return lambda target, *options: object_sections(compiled(SOURCE, "-Oz", "-w", *options, target=target).read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_code_and_constants_count(sections, target):
    found = sections(target, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    code = executable_size(found)
    assert code in (8, 10, 12)  # a target may end a naked function with an instruction that traps
    constants = text_size(found) - code
    # What the ABI demands of each function: entries of unwind tables of ARM (8) and of Windows (8 + 12 at most).
    assert 16 <= constants <= 16 + 20


def test_debug_information_does_not_count(sections):
    for target in TARGETS:
        plain, debugged = (text_size(sections(target, option)) for option in ("-g0", "-g"))
        assert plain == debugged


@pytest.mark.parametrize("target", ["aarch64-macos-none", "x86_64-windows-gnu", "arm-linux-gnueabihf"])
def test_objects_that_are_cut_short(compiled, target):
    data = compiled(SOURCE, "-Oz", "-w", target=target).read_bytes()
    for length in range(0, 100, 3):
        with pytest.raises(ObjectError):
            object_sections(data[:length])


@given(
    st.sampled_from([b"\xcf\xfa\xed\xfe", b"\x64\x86", b"\0\0\xff\xff", b"\x7fELF\x01\x01", b""]),
    st.binary(max_size=200),
)
def test_any_other_bytes_are_refused_or_read(magic, rest):
    try:
        sections = object_sections(magic + rest)
    except ObjectError:
        return
    assert text_size(sections) <= len(rest) * max(1, len(sections))
