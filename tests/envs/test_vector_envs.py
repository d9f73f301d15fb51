"""Several environments side by side, as Gymnasium runs them: in one process and in several."""

import os

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector.utils import batch_space

from mlgo.envs import compile_environments
from tests.conftest import SAMPLE, process_states
from tests.envs.conftest import EVICTING

SMALL = str(SAMPLE / "lz/decode.c")


@pytest.fixture
def make_vec(made):
    def make(name, mode, modules=(SMALL,)):
        made.append(gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode, modules=list(modules)))
        return made[-1]

    return make


@pytest.mark.filterwarnings("ignore::UserWarning")  # that what a compiler may send has no bounds
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "mlgo/RegallocPriority-v0"))
        for name in compile_environments()
    ],
)
def test_one_process_and_several_show_the_same(name, make_vec):
    """Through the end of episodes and into the next ones."""
    both = [make_vec(name, mode) for mode in ("sync", "async")]
    single = both[0].single_observation_space
    for envs in both:
        assert envs.num_envs == 2
        assert envs.single_observation_space == single
        assert envs.observation_space == batch_space(single, 2)
        envs.action_space.seed(3)
    shown = [envs.reset(seed=[1, 2]) for envs in both]
    assert data_equivalence(*shown, exact=True)
    ends = 0
    for _ in range(165):
        actions = [envs.action_space.sample() for envs in both]
        assert data_equivalence(*actions, exact=True)
        shown = [envs.step(one) for envs, one in zip(both, actions, strict=True)]
        assert data_equivalence(*shown, exact=True)
        observations, rewards, terminated, truncated, _ = shown[1]
        assert both[1].observation_space.contains(observations)
        assert (rewards.shape, terminated.shape, terminated.dtype) == ((2,), (2,), np.bool_)
        assert not truncated.any()
        ends += terminated.sum()
    assert ends >= 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_each_process_has_a_compiler_at_work(make_vec):
    envs = make_vec("mlgo/RegallocPriority-v0", "async", [EVICTING])
    observations, _ = envs.reset(seed=0)
    assert observations["li_size"].shape == (2, 1)
    workers = {process.pid for process in envs.processes}
    assert len(workers) == 2
    started = [(int(fields[1]), process) for process, fields in process_states() if int(fields[1]) in workers]
    compilers = [parent for parent, process in started if os.getsid(process) != process]  # a watch leads its session
    assert sorted(compilers) == sorted(workers)
    _, rewards, *_ = envs.step(np.array([[5.0], [6.0]], np.float32))
    assert rewards.tolist() == [0.0, 0.0]
    started = [(int(fields[1]), process) for process, fields in process_states() if int(fields[1]) in workers]
    compilers = [parent for parent, process in started if os.getsid(process) != process]  # a watch leads its session
    assert sorted(compilers) == sorted(workers)
