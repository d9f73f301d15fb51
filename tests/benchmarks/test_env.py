"""Speed of environments: what is counted, on the real compiler."""

import pytest

from benchmarks.env import bench_envs
from mlgo.envs import compile_environments
from tests.conftest import SAMPLE


@pytest.mark.slow
def test_every_environment_is_measured_with_and_without_trees():
    speeds = bench_envs([SAMPLE / "lz/match.c"], "auto", "x86_64-linux-gnu", 2, 0)
    assert {one.environment for one in speeds} == set(compile_environments())
    kinds = [(one.environment, one.trees, one.num_compiles) for one in speeds]
    assert kinds == [
        ("mlgo/InlineSize-v0", False, 2),
        ("mlgo/InlineSize-v0", True, 0),
        ("mlgo/InlineSpeed-v0", False, 2),
        ("mlgo/InlineSpeed-v0", True, 0),
        ("mlgo/RegallocEvict-v0", False, 2),
        ("mlgo/RegallocEvict-v0", True, 0),
        ("mlgo/RegallocPriority-v0", False, 2),
    ]
    for one in speeds:
        assert one.num_steps > 50
        assert 0 < one.steps_per_second_min <= one.steps_per_second <= one.steps_per_second_max
    live, recalled = speeds[:2]
    assert live.num_steps == recalled.num_steps
    assert recalled.steps_per_second > live.steps_per_second
