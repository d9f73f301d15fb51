"""Projects as a whole: does a gain in objects remain when copies are dropped and the project is linked?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.artifacts import PROJECT_MEASURES
from mlgo.report.compare import Bootstrap, Comparison

PAIRS = (*combinations(PROJECT_MEASURES[:3], 2), ("object", "folded"))
"""Measures whose gains are ranked against each other."""

_MIN_PROJECTS = 3
"""Fewest projects with a rank correlation; of two it could only be 1 or -1."""


@dataclass(frozen=True)
class ProjectGains:
    """One policy on one project.

    Attributes:
        policy: policy with its seed.
        project: the project.
        split: its split.
        num_modules: evaluated modules of the project.
        policy_bytes: size by measure, under the policy; None where it could not be had.
        baseline_bytes: the same under the heuristic.
    """

    policy: str
    project: str
    split: str
    num_modules: int
    policy_bytes: dict[str, int | None]
    baseline_bytes: dict[str, int | None]

    @property
    def complete(self) -> bool:
        """Whether all sizes are known and above 0, so that measures may be compared on this project."""
        return all(self.policy_bytes.values()) and all(self.baseline_bytes.values())

    def gain(self, measure: str) -> float | None:
        """``1 - policy / baseline``; None if one of the two is unknown or the baseline is 0."""
        policy, baseline = self.policy_bytes[measure], self.baseline_bytes[measure]
        return None if policy is None or not baseline else 1.0 - policy / baseline


@dataclass(frozen=True)
class TotalGains:
    """One policy on all projects of a split whose sizes are all known.

    Attributes:
        policy: policy with its seed.
        split: train, validation or test.
        by_measure: comparison over projects by measure; each project counts as one module does elsewhere.
    """

    policy: str
    split: str
    by_measure: dict[str, Comparison]


@dataclass(frozen=True)
class RankCorrelation:
    """How far measures agree on the order of gains.

    Attributes:
        scope: whose gains they are.
        num_gains: how many.
        by_pair: Spearman's coefficient, -1 to 1, by pair of measures; None for fewer than 3 gains or if all are equal.
    """

    scope: str
    num_gains: int
    by_pair: dict[tuple[str, str], float | None]


def project_gains(linked: pa.Table, policies: Iterable[str]) -> list[ProjectGains]:
    """Bring each policy's sizes and the heuristic's together, by policy, then in the order of the table.

    Args:
        linked: ``artifacts.LINKED``.
        policies: contenders that are policies.
    """
    rows: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}  # by contender and project, then measure
    for row in linked.to_pylist():
        rows.setdefault((row["contender"], row["project"]), {})[row["measure"]] = row
    found = []
    for policy in policies:
        for (contender, project), by_measure in rows.items():
            if contender == policy and ("heuristic", project) in rows:
                any_row = by_measure["object"]
                found.append(
                    ProjectGains(
                        policy,
                        project,
                        any_row["split"],
                        any_row["num_modules"],
                        _sizes(by_measure),
                        _sizes(rows["heuristic", project]),
                    )
                )
    return found


def total_gains(gains: Sequence[ProjectGains], bootstrap: Bootstrap) -> list[TotalGains]:
    """Compare each policy over the projects of each split, with intervals over resampled projects."""
    found = []
    for policy, split in dict.fromkeys((one.policy, one.split) for one in gains):
        chosen = [one for one in gains if (one.policy, one.split) == (policy, split)]
        comparisons = {
            measure: bootstrap.compare(
                _column(chosen, "policy_bytes", measure),
                _column(chosen, "baseline_bytes", measure),
                *(policy, split, "projects", measure),
            )
            for measure in PROJECT_MEASURES
        }
        found.append(TotalGains(policy, split, comparisons))
    return found


def rank_correlations(gains: Sequence[ProjectGains]) -> list[RankCorrelation]:
    """Correlate gains over the test projects and over all projects: of each policy, and of all policies together."""
    complete = [one for one in gains if one.complete]
    policies = list(dict.fromkeys(one.policy for one in complete))
    found = []
    for title, part in (
        ("test projects", [one for one in complete if one.split == "test"]),
        ("all evaluated projects", complete),
    ):
        for policy in policies:
            found.append(_correlate(f"{policy}, {title}", [one for one in part if one.policy == policy]))
        if len(policies) > 1:
            found.append(_correlate(f"all policies, {title}", part))
    return found


def link_failures(linked: pa.Table) -> list[dict[str, Any]]:
    """Rows of ``artifacts.LINKED`` without a size."""
    return [row for row in linked.to_pylist() if row["failure"]]


def _sizes(by_measure: dict[str, dict[str, Any]]) -> dict[str, int | None]:
    return {measure: by_measure[measure]["bytes"] for measure in PROJECT_MEASURES}


def _column(gains: Sequence[ProjectGains], side: str, measure: str) -> np.ndarray:
    """Sizes of projects, float64 [num_projects]; NaN where not all measures are known."""
    return np.array([getattr(one, side)[measure] if one.complete else np.nan for one in gains], np.float64)


def _correlate(scope: str, gains: Sequence[ProjectGains]) -> RankCorrelation:
    columns = {measure: [one.gain(measure) for one in gains] for measure in PROJECT_MEASURES}
    return RankCorrelation(scope, len(gains), {(a, b): _spearman(columns[a], columns[b]) for a, b in PAIRS})


def _spearman(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    if len(first) < _MIN_PROJECTS or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)
