"""The benchmarks, run as a user runs them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="session")
def benchmark() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a benchmark by its name with some arguments in the repository."""

    def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)

    return run
