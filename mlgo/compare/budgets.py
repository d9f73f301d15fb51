"""What a training has found within so many compiles: the best policy so far, by the validation of its own learner."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mlgo.base.names import PolicyName
from mlgo.compare.curves import Curve

BUDGETS = (100, 300, 1_000, 3_000, 10_000, 30_000)
"""Compiles, validations included; about equal steps of a logarithm."""

_NEARLY = 0.9
"""A training that ended after this share of a budget counts as one of that budget."""


@dataclass(frozen=True)
class Progress:
    """A learner over its seeds.

    Attributes:
        learner: its name.
        seeds: of its trainings, ascending.
        evaluations: float64 [num_points], compiles asked for when a policy was validated, in any of its trainings.
        gains: float64 [num_seeds, num_points], validation reward of the best policy until then; NaN before the first
            validation.
    """

    learner: str
    seeds: tuple[int, ...]
    evaluations: np.ndarray
    gains: np.ndarray

    def within(self, budget: float) -> np.ndarray | None:
        """Gain of each training within so many compiles, float64 [num_seeds]; None where trainings took far fewer."""
        reached = np.flatnonzero(self.evaluations <= budget)
        if not reached.size or self.evaluations[-1] < _NEARLY * budget:
            return None
        found: np.ndarray = self.gains[:, reached[-1]]
        return None if np.isnan(found).any() else found


def progress_of(curves: Sequence[Curve]) -> list[Progress]:
    """Progress of each learner, by name; those that compile nothing are left out."""
    named = [(PolicyName.of(curve.policy), curve.points("evaluations", "validation_reward")) for curve in curves]
    known = sorted((name, *points) for name, points in named if points[0] and points[0][-1] > 0)
    return [_progress(learner, list(group)) for learner, group in groupby(known, lambda one: one[0].learner)]


def _progress(learner: str, trainings: Sequence[tuple[PolicyName, list[float], list[float]]]) -> Progress:
    evaluations = np.unique(np.concatenate([np.asarray(x) for _, x, _ in trainings]))
    gains = np.full((len(trainings), evaluations.size), np.nan)
    for row, (_, x, y) in zip(gains, trainings, strict=True):
        best = np.maximum.accumulate(y)
        last = np.searchsorted(x, evaluations, side="right") - 1
        row[last >= 0] = best[last[last >= 0]]
    return Progress(learner, tuple(name.seed for name, *_ in trainings), evaluations, gains)
