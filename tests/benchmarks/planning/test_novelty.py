"""How often outcomes are new."""

import numpy as np
import pytest

from benchmarks.planning.novelty import Novelty, Outcomes, fit_novelty


def test_chance_of_the_new():
    assert Novelty(0.5, 2.0).chance(0, 0) == 1.0
    assert Novelty(0.5, 2.0).chance(6, 4) == 0.5  # (2 + 0.5 * 4) / (2 + 6)


def test_outcomes_are_numbered_as_they_appear():
    drawn = Outcomes(Novelty(0.5, 2.0)).draw(np.random.default_rng(0), 500)
    first = [int(np.flatnonzero(drawn == number)[0]) for number in range(drawn.max() + 1)]
    assert first == sorted(first)
    assert first[0] == 0


def test_nearly_all_are_new_or_nearly_none():
    rng = np.random.default_rng(0)
    assert Outcomes(Novelty(0.0, 1e9)).draw(rng, 100).max() == 99
    assert Outcomes(Novelty(0.0, 1e-9)).draw(rng, 100).max() == 0


def test_more_often_seen_outcomes_come_more_often():
    # After one first outcome, the second is the same with probability 1 - (1 + 0) / (1 + 1) = 1/2.
    same = [Outcomes(Novelty(0.0, 1.0)).draw(np.random.default_rng(seed), 2)[1] == 0 for seed in range(2000)]
    assert np.mean(same) == pytest.approx(0.5, abs=0.04)
    # Without a discount the expected number after n is the sum of 1 / (1 + i): 2.93 for n = 10.
    numbers = [Outcomes(Novelty(0.0, 1.0)).draw(np.random.default_rng(seed), 10).max() + 1 for seed in range(2000)]
    assert np.mean(numbers) == pytest.approx(2.929, abs=0.08)


def test_a_second_draw_goes_on_where_the_first_ended():
    outcomes = Outcomes(Novelty(0.0, 1e-9))
    outcomes.draw(np.random.default_rng(0), 3)
    assert outcomes.draw(np.random.default_rng(1), 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("truth", [Novelty(0.2, 1.0), Novelty(0.6, 3.0)])
def test_a_process_is_found_again(truth):
    rng = np.random.default_rng(3)
    expected, again = [], []
    for _ in range(60):
        drawn = Outcomes(truth).draw(rng, 200).tolist()
        found = fit_novelty([one not in drawn[:i] for i, one in enumerate(drawn)])
        expected.append(max(drawn) + 1)
        again.append(Outcomes(found).draw(rng, 200).max() + 1)
    assert np.mean(again) == pytest.approx(np.mean(expected), rel=0.15)


def test_extremes():
    always, never = fit_novelty([True] * 100), fit_novelty([True] + [False] * 99)
    rng = np.random.default_rng(0)
    assert Outcomes(always).draw(rng, 100).max() > 75
    assert np.mean([Outcomes(never).draw(rng, 100).max() for _ in range(50)]) < 0.5


def test_nothing_to_fit():
    with pytest.raises(ValueError, match="twice"):
        fit_novelty([True])
