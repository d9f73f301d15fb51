"""Modules with the options of their code generation."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ConfigError, ObjectError
from mlgo.host.linker import LinkedFile
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file, write_variants

options = st.lists(
    st.from_regex(r"-(fno|m)-[a-ce-z]{1,20}|-march=[a-z0-9]+|-falign-loops=[0-9]+", fullmatch=True), max_size=6
)


@given(st.binary(max_size=64), options, st.binary(max_size=40), st.lists(st.binary(min_size=1), max_size=2))
def test_what_is_put_around_bitcode_is_found_again(tmp_path_factory, bitcode, some, index, variants):
    folder = tmp_path_factory.mktemp("modules")
    path = folder / "module.bc"
    path.write_bytes(module_file(bitcode, Generation(tuple(some), index, variants=variants)))
    assert generation_of(path) == Generation(tuple(some), index, variants=tuple(variants))
    assert bitcode_of(path.read_bytes()) == bitcode
    itself, *others = write_variants(path, folder / "others")
    assert (itself, [bitcode_of(one.read_bytes()) for one in others]) == (path, variants)
    assert [generation_of(one) for one in others] == [Generation(tuple(some), index)] * len(variants)
    if some or index:
        magic, version, offset, size, _ = struct.unpack("<5I", path.read_bytes()[:20])
        assert (magic, version, offset % 16) == (0x0B17C0DE, 0, 0)
        assert path.read_bytes()[offset : offset + size] == bitcode


links = st.builds(
    LinkedFile,
    project=st.just("p"),
    name=st.just("bin/prog"),
    kind=st.sampled_from(["program", "shared"]),
    parts=st.just((("archive", ("a.c", "b.c")),)),
    options=st.lists(st.sampled_from(["--gc-sections", "-O2", "-lm", "/home/me/lib.so", "--icf=all"])).map(tuple),
    version_script=st.text(max_size=60),
    export_dynamic=st.booleans(),
    entry=st.text(max_size=9),
)


@given(links, options, st.binary(max_size=40), st.booleans())
def test_a_link_is_found_again_without_what_decides_nothing(tmp_path_factory, file, some, index, is_group):
    path = tmp_path_factory.mktemp("modules") / "module.bc"
    path.write_bytes(module_file(b"BC", Generation(tuple(some), index, link=file.only_part(is_group=is_group))))
    found = generation_of(path)
    assert (found.options, found.index, bitcode_of(path.read_bytes())) == (tuple(some), index, b"BC")
    assert found.link is not None
    assert (found.link.parts, found.link.project, found.link.name) == ((("object", ("merged",)),), "", "")
    own = [option for option in file.options if option not in ("-lm", "/home/me/lib.so")]
    assert list(found.link.options) == own + ["--no-gc-sections"] * is_group
    for name in ("kind", "version_script", "export_dynamic", "entry"):
        assert getattr(found.link, name) == getattr(file, name)


LINK = {"kind": "program", "options": [], "version_script": "", "export_dynamic": False, "entry": ""}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        *(
            json.dumps(LINK | change).encode()
            for change in (
                {"kind": "script"},
                {"options": "-O2"},
                {"options": [1]},
                {"export_dynamic": 1},
                {"entry": None},
                {"more": ""},
            )
        ),
        json.dumps({name: value for name, value in LINK.items() if name != "entry"}).encode(),
    ],
)
def test_links_that_are_not_well_formed(tmp_path, data):
    gap = b"\0link\0" + struct.pack("<I", len(data)) + data
    (tmp_path / "odd.bc").write_bytes(struct.pack("<5I", 0x0B17C0DE, 0, 20 + len(gap), 2, 0) + gap + b"BC")
    message = "how it is linked is not well-formed" if data else "the file for link is cut short"
    with pytest.raises(ObjectError, match=rf"odd\.bc: {message}"):
        generation_of(tmp_path / "odd.bc")


def test_bitcode_without_options_stays_as_it_is(tmp_path):
    assert module_file(b"BC\xc0\xde", Generation()) == b"BC\xc0\xde"
    (tmp_path / "plain.bc").write_bytes(b"BC\xc0\xde" + bytes(100))
    assert generation_of(tmp_path / "plain.bc").options == ()
    assert generation_of(tmp_path / "missing.bc").options == ()


@pytest.mark.parametrize("option", ["-fplugin=evil.so", "-Xclang", "@file", "-fpass-plugin=x", "-o"])
def test_options_that_run_code_are_refused_on_both_sides(tmp_path, option):
    with pytest.raises(ConfigError, match=option):
        module_file(b"BC", Generation((option,)))
    gap = f"{option}\0".encode()
    (tmp_path / "evil.bc").write_bytes(struct.pack("<5I", 0x0B17C0DE, 0, 20 + len(gap), 2, 0) + gap + b"BC")
    with pytest.raises(ConfigError, match=option):
        generation_of(tmp_path / "evil.bc")


ODD = "a bitcode wrapper whose bitcode begins at"
WHOLE = module_file(b"BC", Generation(index=bytes(range(1, 33))))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((struct.pack("<5I", 0x0B17C0DE, 0, offset, 2, 0), ODD) for offset in (0, 19, 1 << 30)),
        (WHOLE[:60], "the file for -fthinlto-index= is cut short"),
    ],
)
def test_wrappers_that_make_no_sense(tmp_path, data, message):
    # Offset of the bitcode: 20 bytes of header, NUL, 17 of the option, size, 32 of the index, filled to 16 bytes.
    assert struct.unpack_from("<I", WHOLE, 8) == (80,)
    (tmp_path / "odd.bc").write_bytes(data)
    with pytest.raises(ObjectError, match=rf"odd.bc: {message}"):
        generation_of(tmp_path / "odd.bc")


def test_too_many_options():
    with pytest.raises(ConfigError, match="at most 65,536 fit a module"):
        module_file(b"", Generation(tuple(["-fno-common"] * 10_000)))
