"""Intervals hold the truth about as often as they say, on projects whose modules resemble each other."""

import numpy as np
import pytest

from benchmarks.coverage import FIGURES, _bootstrap_t, coverage, draw, truth
from mlgo.compare.inference import Bootstrap


def test_modules_of_a_project_resemble_each_other():
    """The spread between projects is as large as that within: the intraclass correlation is a half."""
    drawn = draw("alike", 2000, 1, np.random.default_rng(1))
    logs = np.log(drawn.policies[0] / drawn.baseline)
    means = np.bincount(drawn.projects, logs) / np.bincount(drawn.projects)
    within = np.var(logs - means[drawn.projects]) * len(logs) / (len(logs) - len(means))
    assert within == pytest.approx(0.02**2, rel=0.05)
    assert np.var(means[np.bincount(drawn.projects) > 12]) == pytest.approx(0.02**2, rel=0.15)


def test_the_truth_by_hand():
    """Gains of 1 % in the mean of the logarithms; of few that gain, 5 % in three of ten projects."""
    assert truth("alike")["module"] == pytest.approx(1 - np.exp(-0.01), abs=3e-4)
    assert truth("few gain")["module"] == pytest.approx(1 - np.exp(-0.015), abs=3e-4)
    assert truth("few gain")["median"] < 0.004  # most gain nothing


def test_bootstrap_t_of_many_projects_is_the_t_interval():
    logs = np.random.default_rng(0).normal(-0.01, 0.02, (1, 200))
    half = 1.97 * logs.std(ddof=1) / np.sqrt(200)
    low, high = _bootstrap_t(logs, Bootstrap(2000, 0.95, 0))
    expected = 1 - np.exp(logs.mean() + half), 1 - np.exp(logs.mean() - half)
    assert (low, high) == pytest.approx(expected, abs=4e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("num_projects", "num_seeds"), [(6, 1), (6, 5), (10, 1), (24, 1), (24, 5)])
def test_ninety_five_of_a_hundred_intervals_hold_the_truth(num_projects, num_seeds):
    """With 300 samples, 95 % are seen as 91 to 98; resampling modules instead of projects misses a third and more."""
    found = coverage("alike", num_projects, num_seeds, 300, 600)
    for figure in FIGURES:
        assert 0.87 <= found["ours", figure] <= 0.995, (figure, found)
    for figure in FIGURES[:2]:
        assert found["by module", figure] < 0.75, (figure, found)
        assert found["percentile", figure] <= found["ours", figure]
