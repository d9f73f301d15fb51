"""Finding compilers, good and bad."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from mlgo.errors import ToolchainError
from mlgo.host.toolchain import Toolchain, find_toolchain
from tests.conftest import almost

TARGET = "x86_64-linux-gnu"


@pytest.mark.parametrize("setting", ["auto", "ziglang"])
def test_the_wheel(setting):
    toolchain = find_toolchain(setting, TARGET)
    assert toolchain.is_zig
    assert toolchain.version == (22, 1, 8)
    assert toolchain.name == "ziglang clang 22.1.8"
    assert toolchain.target == TARGET
    assert toolchain.binary.name == "zig"
    assert not toolchain.quirks.default_hides_a_feature


def test_missing():
    with pytest.raises(ToolchainError, match="/no/such/clang is not an executable"):
        find_toolchain("/no/such/clang", TARGET)
    with pytest.raises(ToolchainError, match="no-such-clang-anywhere"):
        find_toolchain("no-such-clang-anywhere", TARGET)


def test_a_file_that_is_not_executable(tmp_path):
    (tmp_path / "clang").write_text("")
    with pytest.raises(ToolchainError, match="not an executable"):
        find_toolchain(str(tmp_path / "clang"), TARGET)


def test_not_a_clang(script):
    with pytest.raises(ToolchainError, match="is it one"):
        find_toolchain("/bin/true", TARGET)
    with pytest.raises(ToolchainError, match="is it one"):
        find_toolchain(script("echo gcc version 13.2.0"), TARGET)
    with pytest.raises(ToolchainError, match="is it one"):
        find_toolchain(script("echo clang version 22.1.0; exit 1"), TARGET)


def test_an_executable_of_no_known_format(tmp_path):
    path = tmp_path / "clang"
    path.write_bytes(b"\x7fELF garbage")
    path.chmod(0o755)
    with pytest.raises(ToolchainError):
        find_toolchain(str(path), TARGET)


def test_too_old(script):
    with pytest.raises(ToolchainError, match=r"LLVM 16.*needs 17.*toolchain: auto"):
        find_toolchain(script("echo clang version 16.0.6"), TARGET)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("clang version 17.0.0", (17, 0, 0)),
        ("Debian clang version 19.1.7 (3+b1)", (19, 1, 7)),
        ("Ubuntu clang version 21.1.0git", (21, 1, 0)),
        ("clang version 22.1.8 (https://github.com/x/y 0123abc)", (22, 1, 8)),
    ],
)
def test_versions(line, version, script):
    toolchain = find_toolchain(script(f"echo '{line}'; echo 'Target: x86_64'"), TARGET)
    assert toolchain.version == version
    assert not toolchain.is_zig
    assert toolchain.name == f"clang {'.'.join(map(str, version))}"


@pytest.mark.parametrize("major", range(17, 25))
def test_quirks(major):
    quirks = Toolchain(Path("clang"), False, (major, 0, 0), TARGET).quirks
    if major <= 20:  # fact sheet 2.1: fixed by pull request 141453, first released in 21
        assert quirks.default_slot == "callee_basic_block_count"
        assert quirks.default_hides_a_feature
    else:
        assert quirks.default_slot == "inlining_default"
        assert not quirks.default_hides_a_feature


def test_hash_of_the_executable(script):
    toolchain = find_toolchain(script("echo clang version 18.1.6"), TARGET)
    assert toolchain.sha256 == hashlib.sha256(toolchain.binary.read_bytes()).hexdigest()
    toolchain.check_hash(toolchain.sha256)
    with pytest.raises(ToolchainError, match="is another compiler than the one of this run"):
        toolchain.check_hash(almost(toolchain.sha256))


def test_commands_of_a_plain_clang(script):
    toolchain = find_toolchain(script("echo clang version 18.1.6"), TARGET)
    binary = str(toolchain.binary)
    assert toolchain.back_end[:2] == [binary, f"--target={TARGET}"]
    assert "-fno-crash-diagnostics" in toolchain.back_end
    assert toolchain.front_end("c") == [binary, f"--target={TARGET}"]
    assert toolchain.front_end("c++") == [binary, "--driver-mode=g++", f"--target={TARGET}"]


def test_the_name_holds_no_path(toolchain):
    assert "/" not in toolchain.name


def test_the_wheel_agrees_with_its_own_version(toolchain):
    text = subprocess.run([toolchain.binary, "clang", "--version"], capture_output=True, text=True, check=True).stdout
    assert ".".join(map(str, toolchain.version)) in text
