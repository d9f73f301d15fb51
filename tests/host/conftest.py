"""What tests of more than one file here need."""

import sys
from pathlib import Path

import pytest

from mlgo.host.toolchain import Toolchain


@pytest.fixture
def fake(tmp_path: Path) -> Toolchain:
    """The scripted compiler of tests/fakes."""
    binary = tmp_path / "fake-clang"
    script = Path(__file__).parent.parent / "fakes" / "fake_clang.py"
    binary.write_text(f"#!{sys.executable} -IS\n{script.read_text()}")
    binary.chmod(0o755)
    return Toolchain(binary=binary, is_zig=False, version=(22, 1, 8), target="x86_64-linux-gnu")
