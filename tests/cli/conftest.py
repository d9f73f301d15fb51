"""The installed command, run as a user runs it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

MLGO = Path(sys.executable).with_name("mlgo")


@pytest.fixture(scope="session")
def mlgo() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``mlgo`` with some arguments, and further variables, in the repository."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables}
        return subprocess.run(
            [MLGO, *arguments], capture_output=True, text=True, cwd=REPOSITORY, check=False, env=environment
        )

    return run
