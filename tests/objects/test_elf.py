"""Sizes of ELF objects, against objects made by hand."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ObjectError
from mlgo.host.session import compile_plain
from mlgo.objects.comdat import comdat_groups
from mlgo.objects.measures import Compiled
from mlgo.objects.measures.built_in import EXEC, TEXT
from tests.fakes.elf import ALLOC, NOBITS, NULL, PROGBITS, WRITE, elf_object
from tests.fakes.elf import EXEC as CODE
from tests.objects.test_comdat import COMDAT, grouped, words
from tests.objects.test_unwind import RELOCATIONS, TABLE, unwind_bytes, unwinding


def object_size(data):
    """Executable sections and Berkeley text in bytes."""
    compiled = Compiled(data)
    return EXEC.read(compiled), TEXT.read(compiled)


TYPICAL = [
    (PROGBITS, ALLOC | CODE, 100),  # .text
    (PROGBITS, ALLOC | CODE, 20),  # .text.startup
    (PROGBITS, ALLOC, 30),  # .rodata
    (PROGBITS, ALLOC, 7),  # .eh_frame
    (PROGBITS, ALLOC | WRITE, 1000),  # .data
    (NOBITS, ALLOC | WRITE, 5000),  # .bss
    (PROGBITS, 0, 300),  # .symtab
    (PROGBITS, ALLOC | CODE | WRITE, 3),  # odd but legal: executable counts although writable
]


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ([(PROGBITS, ALLOC | CODE, 5)], (5, 5)),
        ([(PROGBITS, ALLOC, 5)], (0, 5)),
        ([(PROGBITS, ALLOC | WRITE, 5)], (0, 0)),
        ([(PROGBITS, 0, 5)], (0, 0)),
        ([(NOBITS, ALLOC | WRITE, 5)], (0, 0)),
        ([(NULL, ALLOC | CODE, 0)], (0, 0)),
        ([], (0, 0)),
        (TYPICAL, (123, 160)),
    ],
)
def test_sums_by_hand(sections, expected):
    assert object_size(elf_object(sections)) == expected


def test_count_of_sections_in_the_first_entry():
    assert object_size(elf_object(TYPICAL, count_in_first=True)) == (123, 160)
    many = [(PROGBITS, ALLOC | CODE, 1)] * 65_300  # more than fit into the header
    assert object_size(elf_object(many, count_in_first=True)) == (65_300, 65_300)


def changed(data: bytes, place: int, value: bytes) -> bytes:
    """The object with other bytes from a place on, which may be counted from its end."""
    start = place % len(data)
    return data[:start] + value + data[start + len(value) :]


NOT_ELF = (b"", b"\x7fEL", b"MZ" + bytes(100), b"BC\xc0\xde" + bytes(100), bytes(200))
ENDLESS = changed(elf_object([(PROGBITS, ALLOC | CODE, 10)]), 24 - 64, (2**64 - 4).to_bytes(8, "little"))
"""The offset in the entry of its last section wraps around."""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((data, "neither ELF nor") for data in NOT_ELF),
        (elf_object(TYPICAL, bits=32), "no complete section table"),  # only the header says that it has 32 bits
        (changed(elf_object(TYPICAL), 5, b"\2"), "little-endian"),
        (ENDLESS, "beyond its end"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(ObjectError, match=message):
        object_size(data)


def test_every_truncation_of_a_hand_made_object():
    whole = elf_object(TYPICAL[2:4])
    for length in range(len(whole)):
        with pytest.raises(ObjectError):
            object_size(whole[:length])


@pytest.fixture(scope="module")
def real_object(sample, toolchain, settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("object") / "m.o"
    compile_plain(toolchain, sample("codec/base64.c"), settings, object_path=path)
    return path.read_bytes()


@given(data=st.data())
def test_truncations_of_a_real_object(data, real_object):
    with pytest.raises(ObjectError):
        object_size(real_object[: data.draw(st.integers(0, len(real_object) - 1))])


@given(st.lists(st.tuples(st.sampled_from([PROGBITS, NOBITS]), st.integers(0, 7), st.integers(0, 50)), max_size=20))
def test_sums_are_those_of_the_flag_rule(sections):
    executable, text = object_size(elf_object(sections))
    assert executable == sum(n for _, flags, n in sections if flags & CODE)
    assert text == sum(n for _, flags, n in sections if flags & ALLOC and (flags & CODE or not flags & WRITE))


@pytest.mark.parametrize(
    ("read", "whole"),
    [
        (object_size, elf_object(TYPICAL[:4])),
        (comdat_groups, grouped((2, words(COMDAT, 2, 3)), (1, words(COMDAT, 1)))),
        (unwind_bytes, unwinding(TABLE, RELOCATIONS)),
    ],
    ids=["sections", "groups", "unwind"],
)
@given(position=st.integers(16, 10_000), value=st.binary(min_size=1, max_size=8))
def test_damage_is_either_harmless_or_an_object_error(read, whole, position, value):
    with suppress(ObjectError):
        read(changed(whole, position % (len(whole) - 8), value))
