"""Finding compilers, good and bad."""

import hashlib
import pickle
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
    assert (toolchain.name, toolchain.version) == ("ziglang clang 22.1.8", (22, 1, 8))
    assert (toolchain.binary.name, toolchain.target) == ("zig", TARGET)
    text = subprocess.run([toolchain.binary, "clang", "--version"], capture_output=True, text=True, check=True).stdout
    assert "22.1.8" in text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("/no/such/clang", "/no/such/clang is not an executable"),
        ("no-such-clang-anywhere", "no-such-clang-anywhere"),
        (__file__, "not an executable"),
        ("/bin/true", "is it one"),
        ("echo gcc version 13.2.0", "is it one"),
        ("echo clang version 22.1.0; exit 1", "is it one"),
        ("echo clang version 16.0.6", r"LLVM 16.*needs 17.*toolchain: auto"),
    ],
)
def test_what_is_no_compiler(setting, message, script):
    with pytest.raises(ToolchainError, match=message):
        find_toolchain(script(setting) if setting.startswith("echo") else setting, TARGET)


def test_an_executable_of_no_known_format(tmp_path):
    path = tmp_path / "clang"
    path.write_bytes(b"\x7fELF garbage")
    path.chmod(0o755)
    with pytest.raises(ToolchainError):
        find_toolchain(str(path), TARGET)


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
    is_old = major <= 20  # fact sheet 2.1: fixed by pull request 141453, first released in 21
    assert quirks.default_slot == ("callee_basic_block_count" if is_old else "inlining_default")
    assert quirks.default_hides_a_feature == is_old


def test_hash_and_commands_of_a_plain_clang(script):
    toolchain = find_toolchain(script("echo clang version 18.1.6"), TARGET)
    assert toolchain.sha256 == hashlib.sha256(toolchain.binary.read_bytes()).hexdigest()
    toolchain.check_hash(toolchain.sha256)
    with pytest.raises(ToolchainError, match="is another compiler than the one of this run"):
        toolchain.check_hash(almost(toolchain.sha256))
    sha256, sent = toolchain.sha256, pickle.dumps(toolchain)
    toolchain.binary.write_text(toolchain.binary.read_text() + "# of another machine")
    with pytest.raises(ToolchainError, match="is another compiler than the one of this run"):
        pickle.loads(sent).check_hash(sha256)
    binary = str(toolchain.binary)
    assert toolchain.back_end[:2] == toolchain.front_end("c") == [binary, f"--target={TARGET}"]
    assert "-fno-crash-diagnostics" in toolchain.back_end
    assert toolchain.front_end("c++") == [binary, "--driver-mode=g++", f"--target={TARGET}"]
