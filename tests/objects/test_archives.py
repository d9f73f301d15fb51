"""Members of archives."""

import shutil
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import CorpusError
from mlgo.objects.archives import MAGIC, read_members

needs = pytest.mark.skipif(not shutil.which("ar"), reason="needs ar")
LONG = "a name of more than fifteen characters.o"


def content(path):
    data = path.read_bytes()
    return [(one.name, data[one.offset : one.offset + one.size]) for one in read_members(path)]


@needs
def test_what_ar_writes(tmp_path):
    for name, text in {"a.o": "odd", LONG: "even", "b.o": ""}.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["ar", "qc", "x.a", "a.o", LONG, "b.o", "a.o"], cwd=tmp_path, check=True)
    assert content(tmp_path / "x.a") == [("a.o", b"odd"), (LONG, b"even"), ("b.o", b""), ("a.o", b"odd")]


@needs
def test_thin_archives_are_refused_by_name(tmp_path):
    (tmp_path / "a.o").write_text("x")
    subprocess.run(["ar", "qcT", "thin.a", "a.o"], cwd=tmp_path, check=True)
    with pytest.raises(CorpusError, match=r"thin\.a is a thin archive"):
        list(read_members(tmp_path / "thin.a"))


def header(name, size, end=b"`\n"):
    return name.ljust(16) + b"0".ljust(32) + str(size).encode().ljust(10) + end


def test_names_of_bsd(tmp_path):
    path = tmp_path / "x.a"
    table = header(b"#1/12", 16) + b"__.SYMDEF\0\0\0" + b"abcd"
    path.write_bytes(MAGIC + table + header(b"#1/8", 11) + b"long.o\0\0" + b"xyz" + b"\n" + header(b"b.o", 1) + b"!")
    assert content(path) == [("long.o", b"xyz"), ("b.o", b"!")]


@pytest.mark.slow
@needs
def test_thousands_of_members(tmp_path):
    names = [f"object number {number:05d}.o" for number in range(5_000)]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "list").write_text("".join(f'"{name}"\n' for name in names))
    subprocess.run(["ar", "qcS", "x.a", "@list"], cwd=tmp_path, check=True)
    assert content(tmp_path / "x.a") == [(name, name.encode()) for name in names]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no archive"),
        (MAGIC + header(b"a.o/", 5) + b"1234", "goes beyond its end"),
        (MAGIC + header(b"a.o/", 0, b"xx"), "goes beyond its end"),
        (MAGIC + header(b"a.o/", 0).replace(b"0         `", b"-1        `"), "no number"),
        (MAGIC + header(b"/7", 0), "no name at byte 7"),
        (MAGIC + header(b"#1/9", 4) + b"1234", "a name of 9 bytes"),
    ],
)
def test_damage(tmp_path, data, message):
    (tmp_path / "x.a").write_bytes(data)
    with pytest.raises(CorpusError, match=message):
        list(read_members(tmp_path / "x.a"))


@given(st.lists(st.tuples(st.binary(max_size=16), st.integers(0, 99)), max_size=4), st.binary(max_size=80))
def test_members_lie_within_any_archive(tmp_path_factory, headers, rest):
    path = tmp_path_factory.mktemp("archive") / "x.a"
    path.write_bytes(MAGIC + b"".join(header(name, size) for name, size in headers) + rest)
    with suppress(CorpusError):
        for one in read_members(path):
            assert 0 < one.offset <= one.offset + one.size <= path.stat().st_size
