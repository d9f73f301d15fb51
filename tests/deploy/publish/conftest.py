"""Copies of what is released, to publish and to damage."""

import shutil
from pathlib import Path

import pytest

from mlgo.cli.main import build_parser
from tests.conftest import REPOSITORY

RELEASED = REPOSITORY / "data" / "released"


@pytest.fixture
def released(tmp_path) -> Path:
    """A copy of the released tree: policy, C++, parity and card in one folder."""
    return Path(shutil.copytree(RELEASED / "tree8-s0", tmp_path / "released" / "tree8-s0"))


def publish(*words: object) -> None:
    """Run the command."""
    args = build_parser(["publish"]).parse_args(["publish", *map(str, words)])
    args.run(args)
