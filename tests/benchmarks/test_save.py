"""What saving costs, measured on real compiles."""

import numpy as np
import pytest

from benchmarks.save import bench_save
from mlgo.corpus.store import Module
from mlgo.evaluate.scored import ScoredModule
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from tests.fakes.scores import scores


def test_ways_of_saving_are_compared_on_the_same_steps(sample, toolchain, settings, leaves_nothing):
    module = Module("lz", "match.c", "c", "train", "")
    scaling = Normalisation(("cost_estimate",), np.zeros(1, np.float32), np.ones(1, np.float32))
    policy = Policy("inline-size", scaling, Architecture((1, 1)), np.array([0, -1], np.float32))
    bitcode = {module.key: sample("lz/match.c")}
    with leaves_nothing():
        cost = bench_save(toolchain, settings, policy, [ScoredModule(module, scores(1, 1, 1), 1)], bitcode, 2, 3, 1)
    assert (cost.compiles, cost.rounds, cost.policies) == (2, 3, 2)
    for name in ("off_seconds", "in_line_over_off", "background_over_off", "in_line_ms", "background_ms"):
        low, high = getattr(cost, f"{name}_range")
        assert 0.0 < low <= getattr(cost, name) <= high
    assert cost.in_line_ms_range[0] > cost.background_ms_range[0]
    assert cost.record()["in_line_ms"] == pytest.approx(cost.in_line_ms)
