"""The command, run in a clone."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlgo.cli.main import build_parser, find_commands
from mlgo.cli.show_report import PAGES
from tests.conftest import REPOSITORY
from tests.fork_server import ForkServer

MLGO = Path(sys.executable).with_name("mlgo")
TRACKED_DATA = ("drivers", "programs", "released", "sample")


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to this checkout's files, with a ``data`` folder as a clone has it: results of runs here are not in it."""
    root = tmp_path_factory.mktemp("clone")
    (root / "data").mkdir()
    names = [path.name for path in REPOSITORY.iterdir() if path.name != "data" and not path.name.startswith(".")]
    for name in [*names, *(f"data/{name}" for name in TRACKED_DATA)]:
        (root / name).symlink_to(REPOSITORY / name)
    return root


@pytest.fixture(scope="session")
def mlgo(clone: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run ``mlgo`` with some arguments, and further variables, in a clone."""
    process = ForkServer([*find_commands().values(), *(f"mlgo.{page.module}" for page in PAGES.values())])

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return process.run("mlgo", *arguments, folder=clone, environment={**os.environ, **variables})

    yield run
    process.close()


@pytest.fixture(scope="session")
def prints(mlgo) -> Callable[..., str]:
    """What a run prints that succeeds, without a word on stderr."""

    def run(*arguments: str | Path, **variables: str) -> str:
        done = mlgo(*arguments, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.fixture(scope="session")
def refuses(mlgo) -> Callable[..., str]:
    """The error of a run that fails and prints nothing but this one line."""

    def run(*arguments: str | Path, **variables: str) -> str:
        done = mlgo(*arguments, **variables)
        assert (done.returncode, done.stdout) == (1, "")
        error = re.fullmatch("error: (.+)\n", done.stderr)
        assert error, done.stderr
        return error[1]

    return run


def run_here(*words: object) -> None:
    """Run ``mlgo`` in this process, which is quicker."""
    args = build_parser([str(words[0])]).parse_args(list(map(str, words)))
    args.run(args)
