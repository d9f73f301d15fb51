"""Rewards of candidates on modules, by hand."""

import numpy as np
import pytest

from mlgo.learn.es.loop import mean_improvement, mean_over_common, reward_figures

NAN = np.nan


def test_candidates_are_compared_on_the_same_modules():
    rewards = np.array([[1.0, NAN, 3.0], [2.0, NAN, 4.0], [0.0, 9.0, NAN]])
    # The second module fails under two of three: it counts for nobody. The third is the third candidate's own fault.
    np.testing.assert_array_equal(mean_over_common(rewards), [2.0, 3.0, NAN])
    # Where exactly half fail, too.
    np.testing.assert_array_equal(mean_over_common(np.array([[1.0, NAN], [2.0, 5.0]])), [1.0, 2.0])
    assert np.isnan(mean_over_common(np.full((2, 2), NAN))).all()
    assert np.isnan(mean_over_common(np.zeros((2, 0)))).all()  # all modules are in quarantine


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.1, 0.2], [0.4, 0.1], 0.1),
        ([0.1, NAN], [0.4, 9.0], 0.3),  # the first's failure says nothing about the second
        ([0.1, 0.2], [0.4, NAN], NAN),
        ([NAN, NAN], [0.4, 0.1], NAN),
        ([], [], NAN),
    ],
)
def test_improvement_by_hand(first, second, expected):
    assert mean_improvement(np.array([first, second], float)) == pytest.approx(expected, nan_ok=True)


def test_figures_by_hand():
    rewards = np.array([[0.1, -0.3, 0.2], [0.0, -0.1, NAN], [0.3, 0.3, 0.3]])
    found = reward_figures(rewards, np.array([0.0, NAN, 0.3]))
    assert found == pytest.approx(
        {
            "mean_reward": 0.15,
            "max_reward": 0.3,
            "min_reward": 0.0,
            "reward_p05": 0.015,
            "reward_p25": 0.075,
            "reward_p50": 0.15,
            "reward_p75": 0.225,
            "reward_p95": 0.285,
            "win_share": 5 / 8,
            "regression_share": 2 / 8,
            "mean_regression": -0.2,
            "worst_regression": -0.3,
        }
    )


def test_figures_without_regressions_and_without_anything():
    found = reward_figures(np.array([[0.1]]), np.array([0.1]))
    assert (found["regression_share"], found["mean_regression"], found["worst_regression"]) == (0.0, 0.0, 0.0)
    nothing = reward_figures(np.full((2, 2), NAN), np.full(2, NAN))
    assert nothing.keys() == found.keys()
    assert set(nothing.values()) == {None}
