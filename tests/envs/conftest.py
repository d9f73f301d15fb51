"""Environments that are closed when a test ends."""

import gymnasium
import pytest

import mlgo.envs  # noqa: F401  registers them
from tests.conftest import SAMPLE

INLINING = [str(SAMPLE / "json/parser.cpp"), str(SAMPLE / "lz/match.c")]
SMALL, EVICTING = INLINING[1], str(SAMPLE / "matrix/lu.cpp")


def finish(env, act, **reset):
    """Answer by ``act(observation, info)`` to the end: rewards, whether it ended well, the last info."""
    observation, info = env.reset(**reset)
    rewards, over = [], False
    while not over:
        observation, reward, terminated, truncated, info = env.step(act(observation, info))
        rewards.append(reward)
        over = terminated or truncated
    return rewards, terminated, info


@pytest.fixture
def made():
    """Environments to close."""
    envs = []
    yield envs
    for env in envs:
        env.close()


@pytest.fixture
def make(made):
    def make_env(name, modules=INLINING, **arguments):
        made.append(gymnasium.make(name, modules=modules, **arguments).unwrapped)
        return made[-1]

    return make_env
