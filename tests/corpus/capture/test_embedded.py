"""Bitcode in real objects of three formats."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.corpus.capture.bitcode import made_by, triple_of
from mlgo.corpus.capture.embedded import find_embedded, is_object
from mlgo.errors import ObjectError
from mlgo.host.module_file import bitcode_of

EMBED = ("-Xclang", "-fembed-bitcode=all")


@pytest.fixture
def object_of(toolchain, tmp_path):
    def compile_object(name, target="x86_64-linux-gnu", options=EMBED):
        (tmp_path / f"{name}.c").write_text(f"int {name}(int x) {{ return x + 1; }}\n")
        command = [toolchain.binary, "clang", f"--target={target}", "-Oz", *options, "-c", f"{name}.c"]
        subprocess.run([*command, "-o", f"{name}.o"], cwd=tmp_path, check=True)
        return tmp_path / f"{name}.o"

    return compile_object


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "arm-linux-gnueabi", "aarch64-macos", "x86_64-windows-gnu"])
def test_one_module_with_its_command(object_of, toolchain, target):
    data = object_of("f", target).read_bytes()
    assert is_object(data)
    (one,) = find_embedded(data)
    bitcode = bitcode_of(data[one.offset : one.offset + one.size])
    assert made_by(bitcode) == toolchain.version
    assert triple_of(bitcode).startswith(target.partition("-")[0].replace("aarch64", "a"))
    assert one.command[:3] == ("-cc1", "-triple", triple_of(bitcode))


@pytest.mark.skipif(not shutil.which("ld"), reason="needs ld")
def test_joined_objects_are_told_apart(object_of, tmp_path):
    parts = [object_of(name) for name in ("f", "g")]
    subprocess.run(["ld", "-r", *parts, "-o", "joined.o"], cwd=tmp_path, check=True)
    joined = (tmp_path / "joined.o").read_bytes()
    found = [joined[one.offset : one.offset + one.size] for one in find_embedded(joined)]
    alone = [part.read_bytes() for part in parts]
    assert found == [data[one.offset : one.offset + one.size] for data in alone for one in find_embedded(data)]
    assert [one.command[:1] for one in find_embedded(joined)] == [("-cc1",)] * 2


@pytest.mark.skipif(not shutil.which("ld"), reason="needs ld")
def test_joined_objects_of_which_some_have_no_command(object_of, tmp_path):
    subprocess.run(["objcopy", "--remove-section=.llvmcmd", object_of("f")], check=True)
    subprocess.run(["ld", "-r", "f.o", object_of("g"), "-o", "joined.o"], cwd=tmp_path, check=True)
    with pytest.raises(ObjectError, match="it holds 2 modules and 1 commands"):
        find_embedded((tmp_path / "joined.o").read_bytes())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "it holds no bitcode; compile with"),
        (("-fembed-bitcode-marker",), "it holds no bitcode; compile with"),
        (("-fembed-bitcode=all",), "its bitcode is from after optimization"),
    ],
)
def test_objects_that_are_refused(object_of, options, message):
    with pytest.raises(ObjectError, match=message):
        find_embedded(object_of("f", options=options).read_bytes())


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
        try:
            for one in find_embedded(damaged):
                assert 0 <= one.offset < one.offset + one.size <= len(damaged)
        except ObjectError:
            pass
