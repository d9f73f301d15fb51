"""Environments that are closed when a test ends."""

import gymnasium
import pytest

import mlgo.envs  # noqa: F401  registers them
from tests.conftest import SAMPLE

INLINING = [str(SAMPLE / "json/parser.cpp"), str(SAMPLE / "lz/match.c")]
EVICTING = str(SAMPLE / "matrix/lu.cpp")


@pytest.fixture
def make():
    made = []

    def make_env(name, modules=INLINING, **arguments):
        made.append(gymnasium.make(name, modules=modules, **arguments).unwrapped)
        return made[-1]

    yield make_env
    for env in made:
        env.close()
