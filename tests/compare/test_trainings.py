"""What trainings have found within so many compiles, by hand."""

import numpy as np

from mlgo.compare.trainings import Curve, budget_curves


def curve(policy, evaluations, rewards):
    return Curve(
        policy, {"round": list(range(len(evaluations))), "evaluations": evaluations, "validation_reward": rewards}
    )


CURVES = [
    curve("es-s1", [60, 500, 900], [0.0, 0.02, 0.01]),
    curve("bc-s0", [0], [0.0]),
    curve("es-s0", [60, None, 1000], [0.0, None, 0.03]),
    curve("ppo-s0", [90], [0.01]),
    Curve("old-s0", {"epoch": [0.0]}),
]


def test_the_best_until_then_by_seed():
    one, other = budget_curves(CURVES)
    assert (one.learner, one.seeds, other.learner, other.seeds) == ("es", (0, 1), "ppo", (0,))
    assert one.evaluations.tolist() == [60, 500, 900, 1000]
    assert one.gains.tolist() == [[0, 0, 0, 0.03], [0, 0.02, 0.02, 0.02]]


def test_within_a_budget():
    one, other = budget_curves(CURVES)
    assert one.within(59) is None
    assert one.within(100).tolist() == [0, 0]
    assert one.within(950).tolist() == [0, 0.02]
    assert one.within(1000).tolist() == one.within(1111).tolist() == [0.03, 0.02]  # 1000 is 0.9 of 1111
    assert one.within(1112) is None
    assert other.within(100).tolist() == [0.01]


def test_a_seed_that_was_not_validated_yet():
    late = [curve("es-s0", [10, 20], [0.5, 0.25]), curve("es-s1", [20], [0.125])]
    (found,) = budget_curves(late)
    assert found.within(15) is None
    assert found.within(20).tolist() == [0.5, 0.125]
    assert np.isnan(found.gains[1, 0])
