"""Unpacking a compiler: all of it or nothing."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from mlgo.errors import ArtifactError, ToolchainError
from mlgo.host.toolchain import find_toolchain
from scripts.fetch_compiler import unpack_compiler

ZIG = '#!/bin/sh\n[ "$1 $2" = "clang --version" ] && echo clang version 19.1.7 && cat "${0%/*}/lib/name"\n'


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel whose compiler is a shell script that needs its library."""
    path = tmp_path / "ziglang.whl"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("ziglang/zig", ZIG)
        zipped.writestr("ziglang/lib/name", "Target: none\n")
    return path


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    return tmp_path / "compilers" / "llvm19" / "ziglang" / "zig"


def test_the_compiler_runs_finds_its_library_and_replaces_an_earlier_one(wheel, binary):
    unpack_compiler(wheel, binary)
    text = subprocess.run([binary, "clang", "--version"], capture_output=True, text=True, check=True).stdout
    assert text == "clang version 19.1.7\nTarget: none\n"
    toolchain = find_toolchain(str(binary), "x86_64-linux-gnu")
    assert (toolchain.name, toolchain.quirks.default_slot) == ("ziglang clang 19.1.7", "callee_basic_block_count")
    (binary.parent / "lib" / "stale").write_text("")
    unpack_compiler(wheel, binary)
    assert sorted(os.listdir(binary.parent / "lib")) == ["name"]  # noqa: PTH208
    assert [path.name for path in binary.parents[2].iterdir()] == ["llvm19"]


def test_what_is_no_compiler_changes_nothing(wheel, binary, tmp_path):
    unpack_compiler(wheel, binary)
    text, empty = tmp_path / "text.whl", tmp_path / "empty.whl"
    text.write_text("no archive")
    with zipfile.ZipFile(empty, "w") as zipped:
        zipped.writestr("ziglang/README.md", "")
    for bad in (text, empty):
        with pytest.raises(ToolchainError, match=rf"{bad.name} is not a wheel of ziglang .*check what pins it"):
            unpack_compiler(bad, binary)
    assert binary.read_text() == ZIG
    assert [path.name for path in binary.parents[2].iterdir()] == ["llvm19"]


def test_a_full_disk(tmp_path, small_disk):
    wheel = tmp_path / "large.whl"
    with zipfile.ZipFile(wheel, "w") as zipped:
        zipped.writestr("ziglang/zig", os.urandom(2 << 20))
    with pytest.raises(ArtifactError, match=r"no space left on the device while writing .*llvm19; free some"):
        unpack_compiler(wheel, small_disk / "llvm19" / "ziglang" / "zig")
    assert list(small_disk.iterdir()) == []
