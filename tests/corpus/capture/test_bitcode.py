"""Bitcode of others, in files and in real objects of three formats: its bounds, its maker, its target."""

import shutil
import struct
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.corpus.capture.bitcode import MAGIC, find_embedded, find_modules, is_object, made_by, same_machine, triple_of
from mlgo.errors import ObjectError
from mlgo.host.module_file import bitcode_of


@pytest.fixture
def llvm(compiled):
    """Bitcode of a text."""
    return lambda text, target="x86_64-linux-gnu": compiled(text, "-emit-llvm", target=target).read_bytes()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_compiler_and_the_triple_are_read(toolchain, llvm, machine):
    data = llvm("int x;", f"{machine}-unknown-linux-gnu")
    assert (made_by(data), triple_of(data)) == (toolchain.version, f"{machine}-unknown-linux-gnu")


def test_a_module_after_many_groups_still_tells_its_triple(llvm):
    text = "".join(f"int f{number}(void) {{ return {number}; }}\n" for number in range(500))
    wrapped = llvm(text, "arm64-apple-macos")  # as always for this system
    assert triple_of(bitcode_of(wrapped)).startswith("arm64-apple-macos")


def test_modules_one_after_another(llvm):
    one, two = (llvm(text) for text in ("int x;", "int f(void) { return 1; }"))
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
    with suppress(ObjectError):
        assert all(0 <= offset < offset + size <= len(data) for offset, size in find_modules(data))


@pytest.mark.parametrize(
    ("machine", "same", "others"),
    [
        ("x86_64-linux-gnu", ["x86_64-pc-linux-musl", "amd64-pc-freebsd"], ["x86_64-w64-mingw32", "aarch64-linux"]),
        ("aarch64-linux-gnu", [], ["arm64-apple-macos"]),
        ("i386-linux-gnu", ["i686-linux-gnu"], []),
    ],
)
def test_machines(machine, same, others):
    assert [one for one in (*same, *others) if same_machine(one, machine)] == same


EMBED = ("-Xclang", "-fembed-bitcode=all")
FUNCTION = "int %s(int x) { return x + 1; }"


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "arm-linux-gnueabi", "aarch64-macos", "x86_64-windows-gnu"])
def test_one_module_with_its_command(compiled, toolchain, target):
    data = compiled(FUNCTION % "f", "-Oz", *EMBED, target=target).read_bytes()
    assert is_object(data)
    (one,) = find_embedded(data)
    bitcode = bitcode_of(data[one.offset : one.offset + one.size])
    assert made_by(bitcode) == toolchain.version
    assert triple_of(bitcode).startswith(target.partition("-")[0].replace("aarch64", "a"))
    assert one.command[:3] == ("-cc1", "-triple", triple_of(bitcode))


@pytest.mark.skipif(not shutil.which("ld"), reason="needs ld")
def test_joined_objects_are_told_apart(compiled, tmp_path):
    parts = [compiled(FUNCTION % name, "-Oz", *EMBED) for name in ("f", "g")]
    subprocess.run(["ld", "-r", *parts, "-o", "joined.o"], cwd=tmp_path, check=True)
    joined = (tmp_path / "joined.o").read_bytes()
    found = [joined[one.offset : one.offset + one.size] for one in find_embedded(joined)]
    alone = [part.read_bytes() for part in parts]
    assert found == [data[one.offset : one.offset + one.size] for data in alone for one in find_embedded(data)]
    assert [one.command[:1] for one in find_embedded(joined)] == [("-cc1",)] * 2

    subprocess.run(["objcopy", "--remove-section=.llvmcmd", parts[0]], check=True)
    subprocess.run(["ld", "-r", *parts, "-o", "joined.o"], cwd=tmp_path, check=True)
    with pytest.raises(ObjectError, match="it holds 2 modules and 1 commands"):
        find_embedded((tmp_path / "joined.o").read_bytes())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-fembed-bitcode-marker",), "it holds no bitcode; compile with"),
        (("-fembed-bitcode=all",), "its bitcode is from after optimization"),
    ],
)
def test_objects_that_are_refused(compiled, options, message):
    with pytest.raises(ObjectError, match=message):
        find_embedded(compiled(FUNCTION % "f", "-Oz", *options).read_bytes())


@given(st.data())
def test_damaged_objects_never_fail_otherwise(tmp_path_factory, toolchain, data):
    folder = tmp_path_factory.getbasetemp() / "damaged"
    if not folder.exists():
        folder.mkdir()
        (folder / "f.c").write_text("int f;")
        subprocess.run([toolchain.binary, "clang", *EMBED, "-c", "f.c"], cwd=folder, check=True)
    whole = (folder / "f.o").read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    patch = data.draw(st.binary(max_size=8))
    damaged = (whole[:at] + patch + whole[at + len(patch) :])[: data.draw(st.integers(0, len(whole)))]
    if is_object(damaged):
        with suppress(ObjectError):
            assert all(0 <= one.offset < one.offset + one.size <= len(damaged) for one in find_embedded(damaged))
