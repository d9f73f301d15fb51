"""What tests of more than one file here need."""

import sys
from pathlib import Path

import pytest

from mlgo.host.frontend import FrontEnd
from mlgo.host.tasks.task import Task
from mlgo.host.toolchain import Toolchain
from tests.conftest import FLAGS, SAMPLE


@pytest.fixture(scope="session")
def optimized(toolchain, settings, tmp_path_factory):
    """Optimized bitcode of a source of data/sample for a task in code generation; unoptimized beside it."""
    fast = settings.model_copy(update={"objective": "spill_cost", "optimization": "-O2"})
    folder = tmp_path_factory.mktemp("optimized")

    def compile_sample(task: Task, source: str) -> Path:
        path = folder / (source.replace("/", "-") + ".bc")
        if not path.exists():
            language = "c" if source.endswith(".c") else "c++"
            front_end, plain = FrontEnd(toolchain, fast, folder, task), path.with_suffix(".plain.bc")
            front_end.compile_to_bitcode(SAMPLE, language, FLAGS[language], source, plain)
            path.write_bytes(front_end.finished(plain))
        return path

    return compile_sample


@pytest.fixture
def fake(tmp_path: Path) -> Toolchain:
    """The scripted compiler of tests/fakes."""
    binary = tmp_path / "fake-clang"
    script = Path(__file__).parent.parent / "fakes" / "fake_clang.py"
    binary.write_text(f"#!{sys.executable} -IS\n{script.read_text()}")
    binary.chmod(0o755)
    return Toolchain(binary=binary, is_zig=False, version=(22, 1, 8), target="x86_64-linux-gnu")
