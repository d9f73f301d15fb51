"""Bitcode of others: its bounds, its maker, its target."""

import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.corpus.capture.bitcode import MAGIC, find_modules, made_by, same_machine, triple_of
from mlgo.errors import ObjectError
from mlgo.host.module_file import bitcode_of


def compiled(toolchain, folder, text, *options):
    (folder / "text.c").write_text(text)
    output = folder / "text.bc"
    command = [toolchain.binary, "clang", *options, "-emit-llvm", "-c", "text.c", "-o", output]
    subprocess.run(command, cwd=folder, check=True)
    return output.read_bytes()


@pytest.mark.parametrize(
    "triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu"]
)
def test_the_compiler_and_the_triple_are_read(toolchain, tmp_path, triple):
    data = compiled(toolchain, tmp_path, "int x;", f"--target={triple}")
    assert (made_by(data), triple_of(data)) == (toolchain.version, triple)


def test_a_module_after_many_groups_still_tells_its_triple(toolchain, tmp_path):
    text = "".join(f"int f{number}(void) {{ return {number}; }}\n" for number in range(500))
    wrapped = compiled(toolchain, tmp_path, text, "--target=arm64-apple-macos")  # as always for this system
    assert triple_of(bitcode_of(wrapped)).startswith("arm64-apple-macos")


def test_modules_one_after_another(toolchain, tmp_path):
    one, two = (compiled(toolchain, tmp_path, text) for text in ("int x;", "int f(void) { return 1; }"))
    wrapped = struct.pack("<5I", 0x0B17C0DE, 0, 20, len(two), 7) + two
    data = one + two + bytes(8) + wrapped
    assert find_modules(data) == [(0, len(one)), (len(one), len(two)), (len(one) + len(two) + 8, len(wrapped))]


@pytest.mark.parametrize("data", [b"text", MAGIC + b"\x01\0\0\0\xff\0\0\0", b"\xde\xc0\x17\x0b" + bytes(15) + b"\xff"])
def test_what_is_none_is_refused(data):
    with pytest.raises(ObjectError, match=r"no bitcode at byte 0|cut off"):
        assert not find_modules(data)


@given(st.binary(max_size=200), st.integers(0, 300), st.binary(max_size=8))
def test_damaged_bitcode_never_fails_otherwise(start, at, patch):
    data = MAGIC + b"5\x14\0\0\x05\0\0\0b\x0c0$JY\xbe\xa6m\xfb\xb5\xcf\x0bQ\x80L\x01\0\0\0!\x0c\0\0" + start
    data = data[:at] + patch + data[at + len(patch) :]
    made_by(data)
    triple_of(data)
    try:
        for offset, size in find_modules(data):
            assert 0 <= offset < offset + size <= len(data)
    except ObjectError:
        pass


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x86_64-pc-linux-musl", "x86_64-linux-gnu", True),
        ("amd64-unknown-freebsd", "x86_64-linux-gnu", True),
        ("arm64-apple-macos", "aarch64-linux-gnu", False),
        ("x86_64-w64-mingw32", "x86_64-linux-gnu", False),
        ("i686-linux-gnu", "i386-linux-gnu", True),
        ("aarch64-linux-gnu", "x86_64-linux-gnu", False),
    ],
)
def test_machines(one, other, same):
    assert same_machine(one, other) is same
