"""Projects as a whole: does a gain in objects remain when copies are dropped and the project is linked?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import PROJECT_MEASURES
from mlgo.compare.inference import POINTS_ONLY, Bootstrap
from mlgo.compare.measured import Contender, Measured, Place, Row, compare_all, gather
from mlgo.host.tasks.task import HEURISTIC

PAIRS = (*combinations(PROJECT_MEASURES[:3], 2), ("object", "folded"))
"""Measures whose gains are ranked against each other."""

_MIN_PROJECTS = 3
"""Fewest projects with a rank correlation; of two it could only be 1 or -1."""


@dataclass(frozen=True)
class RankCorrelation:
    """How far figures agree on an order.

    Attributes:
        scope: what was ranked.
        number: how many.
        by_pair: Spearman's coefficient, -1 to 1, by pair of figures; see `spearman`.
    """

    scope: str
    number: int
    by_pair: Mapping[tuple[str, str], float | None]


def measured_projects(linked: pa.Table, policies: Sequence[Contender]) -> Measured:
    """Bring each policy's sizes and the heuristic's together, in the order of the table.

    Args:
        linked: ``artifacts.LINKED``.
        policies: whose sizes are wanted.
    """
    sizes: dict[tuple[str, str], dict[str, Any]] = {}
    for row in linked.to_pylist():
        one = sizes.setdefault((row["contender"], row["project"]), dict(row))
        one[row["measure"]] = row["bytes"]
    plain = {
        project: {f"baseline_{name}": one[name] for name in PROJECT_MEASURES}
        for (contender, project), one in sizes.items()
        if contender == HEURISTIC
    }
    rows = [
        {**one, **plain[project], "contender": policy}
        for policy in policies
        for (contender, project), one in sizes.items()
        if contender == policy.name and project in plain
    ]
    return gather(rows, ("project",), dict.fromkeys(PROJECT_MEASURES, 0.0), ("project", "split", "num_modules"))


def project_gains(measured: Measured) -> dict[str, np.ndarray]:
    """``1 - policy / baseline`` by measure, float64 [num_contenders, num_items]; NaN where a size is unknown or 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: np.where(measured.baseline[name] > 0, 1.0 - scores / measured.baseline[name], np.nan)
            for name, scores in measured.scores.items()
        }


def total_rows(measured: Measured, bootstrap: Bootstrap) -> list[Row]:
    """Compare each policy, and each learner over its seeds, over the projects of each split whose sizes are all known.

    Args:
        measured: as of `measured_projects`.
        bootstrap: makes the intervals.
    """
    whole = complete(measured)
    known = {name: np.where(whole, scores, np.nan) for name, scores in measured.scores.items()}
    places = [Place(split, "projects", measured.where(split=split)) for split in measured.splits]
    return compare_all(replace(measured, scores=known), places, bootstrap)


def project_rows(measured: Measured, split: str) -> list[Row]:
    """Compare each policy on each project of a split, the number of its evaluated modules as count ``modules``."""
    places = [place for place in measured.places(measured.by_project) if place.split == split]
    return compare_all(measured, places, POINTS_ONLY, count=_count_modules, together=False)


def _count_modules(measured: Measured, members: Sequence[int], items: np.ndarray) -> dict[str, Any]:
    return {"modules": int(measured.items["num_modules"][items].sum())}


def complete(measured: Measured) -> np.ndarray:
    """Whether all sizes are known and above 0, so that measures may be compared, bool [num_contenders, num_items]."""
    return np.all([(measured.scores[name] > 0) & (measured.baseline[name] > 0) for name in PROJECT_MEASURES], axis=0)


def rank_correlations(measured: Measured) -> list[RankCorrelation]:
    """Correlate gains over the judged projects and over all: of each policy, and of all policies together."""
    gains, usable, found = project_gains(measured), complete(measured), []
    for title, items in (
        (f"{measured.judged} projects", measured.where(split=measured.judged)),
        ("all evaluated projects", measured.where()),
    ):
        part = usable & items
        teams = [(one.name, [i]) for i, one in enumerate(measured.contenders) if usable[i].any()]
        if len(teams) > 1:
            teams.append(("all policies", list(range(len(measured.contenders)))))
        for name, members in teams:
            chosen = {measure: values[members][part[members]] for measure, values in gains.items()}
            by_pair = {(a, b): spearman(chosen[a], chosen[b]) for a, b in PAIRS}
            found.append(RankCorrelation(f"{name}, {title}", int(part[members].sum()), by_pair))
    return found


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's coefficient of figures float64 [num]; None for fewer than 3, or if all of one side are equal."""
    if len(first) < _MIN_PROJECTS or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def link_failures(linked: pa.Table) -> list[dict[str, Any]]:
    """Rows of ``artifacts.LINKED`` without a size."""
    return [row for row in linked.to_pylist() if row["failure"]]
