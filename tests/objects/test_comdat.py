"""COMDAT groups, against objects made by hand and against readelf."""

import re
import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ObjectError
from mlgo.host.session import compile_plain
from mlgo.objects.comdat import comdat_groups, shared_text
from mlgo.objects.elf import read_sections, text_size
from tests.fakes.elf import ALLOC, EXEC, PROGBITS, WRITE, deduplicated_text, elf_object, readelf
from tests.objects.test_unwind import unwind_by_readelf

GROUP, SYMTAB, STRTAB = 17, 2, 3
COMDAT = 1
NAMES = b"\0first\0second\0third\0"
SYMBOLS = b"".join(struct.pack("<IBBHQQ", name, 0, 0, 0, 0, 0) for name in (0, 1, 7, 14))


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def grouped(*groups: tuple[int, bytes], names: bytes = NAMES, link: int = 4) -> bytes:
    """An object with text of 100, 20 and 7 bytes in sections 1 to 3, symbols in 4, names in 5, then groups."""
    contents = [(PROGBITS, ALLOC | EXEC, 100), (PROGBITS, ALLOC | EXEC, 20), (PROGBITS, ALLOC, 7)]
    tables = [(SYMTAB, 0, SYMBOLS, 5, 0), (STRTAB, 0, names, 0, 0)]
    return elf_object([*contents, *tables, *((GROUP, 0, data, link, symbol) for symbol, data in groups)])


WRITABLE = [(PROGBITS, ALLOC | WRITE, 40), (SYMTAB, 0, SYMBOLS, 3, 0), (STRTAB, 0, NAMES, 0, 0)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (grouped((2, words(COMDAT, 2, 3)), (1, words(COMDAT, 1))), [(b"second", 27), (b"first", 100)]),
        # Only COMDAT groups count.
        (
            grouped((1, words(0, 1)), (2, words(COMDAT, 3)), (3, words(COMDAT | 0x0FF00000, 2))),
            [(b"second", 7), (b"third", 20)],
        ),
        # Members that are no text add nothing; writable ones are none.
        (grouped((1, words(COMDAT, 4, 2)), (2, words(COMDAT))), [(b"first", 20), (b"second", 0)]),
        (elf_object([*WRITABLE, (GROUP, 0, words(COMDAT, 1), 2, 1)]), [(b"first", 0)]),
        (elf_object([(PROGBITS, ALLOC | EXEC, 5)]), []),
        (grouped((1, words(0, 1))), []),
    ],
    ids=["two", "others", "no text", "writable", "none", "no COMDAT"],
)
def test_groups_by_hand(data, expected):
    assert comdat_groups(data) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (grouped((1, b"")), "is empty"),
        (grouped((1, words(COMDAT, 99))), "names a section that is not there"),
        (grouped((9, words(COMDAT, 1))), "names a symbol that is not there"),
        (grouped((1, words(COMDAT, 1)), link=99), "no symbol table"),
        (grouped((0, words(COMDAT, 1))), "no signature"),
        (grouped((3, words(COMDAT, 1)), names=NAMES[:-1]), "no signature"),
        (grouped((3, words(COMDAT, 1)), names=b"\0"), "no signature"),
        (b"BC", "neither ELF nor"),
    ],
)
def test_damaged_groups(data, message):
    with pytest.raises(ObjectError, match=message):
        comdat_groups(data)


def test_the_first_copy_is_kept():
    # b is kept with 30 bytes, as the first object has it so; c comes once; 5 and 9 are no one's copies
    objects = [(5 + 10 + 30, [(b"a", 10), (b"b", 30)]), (9 + 20 + 2, [(b"b", 20), (b"c", 2)])]
    assert deduplicated_text(objects) == 5 + 10 + 30 + 9 + 2
    assert deduplicated_text(reversed(objects)) == 5 + 10 + 20 + 9 + 2
    assert deduplicated_text([]) == 0


@pytest.fixture(scope="module")
def real_objects(sample, toolchain, settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    paths = []
    for name in ("paths", "order", "spanning"):
        paths.append(folder / f"{name}.o")
        compile_plain(toolchain, sample(f"graph/{name}.cpp"), settings, object_path=paths[-1])
    return paths


def test_real_objects_share_groups(real_objects):
    groups = [comdat_groups(path.read_bytes()) for path in real_objects]
    sizes = [text_size(read_sections(path.read_bytes())) for path in real_objects]
    together = deduplicated_text(zip(sizes, groups, strict=True))
    signatures = [signature for found in groups for signature, _ in found]
    assert len(set(signatures)) < len(signatures)
    assert all(signature.startswith(b"_Z") for signature in signatures)
    assert max(sizes) < together < sum(sizes)


def test_readelf_finds_the_same_groups(real_objects):
    for path in real_objects:
        assert comdat_groups(path.read_bytes()) == groups_by_readelf(path)


def groups_by_readelf(path) -> list[tuple[bytes, int]]:
    text = {}
    for number, _, size, flags in re.findall(
        r"^ +\[ *(\d+)\] \S+ +(\S+) +[0-9a-f]{16} [0-9a-f]+ ([0-9a-f]+) [0-9a-f]{2} +([A-Zlop]*) ",
        readelf(path, "-S"),
        re.MULTILINE,
    ):
        text[number] = int(size, 16) if "A" in flags and ("X" in flags or "W" not in flags) else 0
    for number, size in unwind_by_readelf(path).items():
        text[number] += size
    found: list[tuple[bytes, int]] = []
    for line in readelf(path, "-g").splitlines():
        if match := re.search(r"^COMDAT group section .* \[(\S+)\] contains", line):
            found.append((match[1].encode(), 0))
        elif match := re.match(r" +\[ *(\d+)\] ", line):
            found[-1] = (found[-1][0], found[-1][1] + text[match[1]])
    return found


def test_shares_by_hand():
    # a is the module's own; of b it bears a third of 30, of c half of 5, rounded up
    groups = [(b"a", 10), (b"b", 30), (b"c", 5)]
    assert shared_text(100, groups, {b"b": 3, b"c": 2}) == 100 - 20 - 2
    assert shared_text(100, groups, {}) == 100


@given(
    carriers=st.lists(st.sets(st.sampled_from([b"a", b"b", b"c", b"d"])), min_size=1, max_size=6),
    own=st.integers(0, 1000),
)
def test_shares_add_up_to_one_copy(carriers, own):
    # 60 is divisible by any number of carriers up to 6, so nothing is rounded
    objects = [(own + 60 * len(names), [(name, 60) for name in sorted(names)]) for names in carriers]
    num_copies = Counter(name for names in carriers for name in names)
    assert sum(shared_text(text, groups, num_copies) for text, groups in objects) == deduplicated_text(objects)


def test_a_compile_by_shares(sample, toolchain, settings, real_objects):
    module, data = sample("graph/paths.cpp"), real_objects[0].read_bytes()
    groups = comdat_groups(data)
    (signature, size), *_ = groups
    plain = compile_plain(toolchain, module, settings)
    assert plain.scores["dedup_bytes"] is None
    shared = compile_plain(toolchain, module, settings, num_copies={signature: 2, b"of another module": 9})
    assert shared.scores["dedup_bytes"] == plain.scores["text_bytes"] - size // 2
    assert (shared.scores["text_bytes"], shared.object_sha256) == (plain.scores["text_bytes"], plain.object_sha256)
