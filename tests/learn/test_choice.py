"""What episodes of choosing teach."""

import numpy as np
import pytest

from mlgo.cse.problem import Candidates, Compiled, Failed
from mlgo.cse.rollout import Episode
from mlgo.cse.stored import JudgedUnit
from mlgo.learn.choice.imitation import demonstrations
from mlgo.learn.choice.sampled import results, sampled_compiles

UNIT = JudgedUnit("u", "p", "", "train", 3, none=100.0, heuristic=80.0, heuristic_choice=(0,))


def episode(num_steps: int, score: float | None) -> Episode:
    candidates = Candidates((), np.zeros((0, 0), np.int64), np.zeros(0, bool))
    outcome = Failed("timeout", "") if score is None else Compiled(score, 10, (), num_steps, candidates)
    inputs = np.ones((num_steps, 3, 5), np.float32)
    inputs[:, 1, -1] = 0.0
    return Episode(inputs, np.arange(num_steps), outcome)


def test_every_unit_weighs_the_same_however_many_steps_it_takes():
    data = demonstrations([[episode(1, 1.0)], [episode(2, 1.0), episode(1, 1.0)], []])
    assert data.answers.tolist() == [0, 0, 1, 0]
    assert data.weights.tolist() == [2.0] + [pytest.approx(2 / 3)] * 3  # mean 1, both units 2
    assert data.inputs.shape == (4, 3, 4)
    assert data.legal.tolist() == [[True, False, True]] * 4


def test_nothing_to_imitate_is_empty():
    assert len(demonstrations([[], [episode(0, 1.0)]]).answers) == 0


def test_rewards_are_gains_over_the_heuristic():
    good, failed, bad = sampled_compiles(UNIT, [episode(2, 60.0), episode(1, None), episode(1, 88.0)])
    assert good.reward == pytest.approx(0.25)
    assert good.episodes[0].subject == "u"
    assert failed is None
    assert bad.reward == pytest.approx(-0.1)


def test_figures_for_those_who_watch():
    found = results([UNIT], [[episode(2, 60.0), episode(1, None), episode(1, 88.0), episode(0, 80.0)]])
    assert found["results/vs_heuristic"] == pytest.approx((0.25 - 0.1 + 0.0) / 3)
    assert found["results/vs_no_cse"] == pytest.approx((0.4 + 0.12 + 0.2) / 3)
    assert found["results/better"] == pytest.approx(1 / 3)
    assert found["results/worse"] == pytest.approx(1 / 3)
    assert found["results/num_cse"] == pytest.approx(1.0)
    assert found["results/failed"] == pytest.approx(0.25)
    assert results([UNIT], [[episode(1, None)]]) == {"results/failed": 1.0}
