"""Comparisons by policy, split, language and project, and the modules that stand out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core.measures import get_measure
from mlgo.core.names import PolicyName
from mlgo.report.compare import Bootstrap, Comparison
from mlgo.report.measured import measures_in, sizes

SPLITS = ("test", "validation", "train")
"""Splits in the order in which they are shown."""

SCOPES = {
    "all": "all modules",
    "c": "C",
    "c++": "C++",
    "unshared": "nothing shared",
}
"""Parts of a split that are compared by themselves, with their titles."""


@dataclass(frozen=True)
class Row:
    """One contender on one set of modules.

    Attributes:
        contender: policy with its seed, or reference advisor.
        split: train, validation or test.
        scope: key of `SCOPES`, or a project.
        num_truncated: modules where the size stop ended the questions early.
        comparisons: by measure, those that are known.
    """

    contender: str
    split: str
    scope: str
    num_truncated: int
    comparisons: Mapping[str, Comparison]

    def by(self, measure: str) -> Comparison:
        """Comparison of one of the measures."""
        return self.comparisons[measure]


@dataclass(frozen=True)
class Standout:
    """One module whose size changed a lot.

    Attributes:
        project: its project.
        module: source path within the project.
        score: under the policy, in bytes if it is a size.
        baseline: the same under the heuristic.
        ratio: policy over heuristic.
        num_questions: questions the compiler asked.
        num_inlined: of these, answered with inlining.
    """

    project: str
    module: str
    score: float
    baseline: float
    ratio: float
    num_questions: int
    num_inlined: int


def split_rows(measured: pa.Table, names: Iterable[str], bootstrap: Bootstrap) -> list[Row]:
    """Compare each contender on each split and its scopes; empty scopes are left out.

    Args:
        measured: ``measured.MEASURED``.
        names: contenders.
        bootstrap: makes the intervals.
    """
    found = []
    for name in names:
        for split in _splits(measured):
            part = measured.filter((pc.field("contender") == name) & (pc.field("split") == split))
            for scope in SCOPES:
                rows = part.filter(_in_scope(scope))
                if rows.num_rows:
                    found.append(_row(rows, name, split, scope, measures_in(measured), bootstrap))
    return found


def seed_rows(measured: pa.Table, policies: Iterable[str], bootstrap: Bootstrap) -> list[Row]:
    """Compare each learner with policies of two seeds or more, all of its seeds together, as ``<learner>-mean``.

    Args:
        measured: ``measured.MEASURED``; every policy was evaluated on the same modules.
        policies: contenders that are policies, ``<learner>-s<seed>``.
        bootstrap: makes the intervals, over seeds and modules.
    """
    by_learner: dict[str, list[str]] = {}
    for policy in policies:
        by_learner.setdefault(PolicyName.of(policy).learner, []).append(policy)
    found = []
    for learner, names in by_learner.items():
        if len(names) < 2:
            continue
        for split in _splits(measured):
            for scope in SCOPES:
                part = measured.filter((pc.field("split") == split) & _in_scope(scope))
                of_seeds = [_by_module(part.filter(pc.field("contender") == name)) for name in names]
                if of_seeds[0].num_rows:
                    found.append(_seed_row(of_seeds, f"{learner}-mean", split, scope, measures_in(measured), bootstrap))
    return found


def project_rows(measured: pa.Table, names: Iterable[str], bootstrap: Bootstrap) -> list[Row]:
    """Compare each contender on each project; by split (test first), project and contender.

    Args:
        measured: ``measured.MEASURED``.
        names: contenders.
        bootstrap: makes the intervals.
    """
    chosen = list(names)
    found = []
    for split in _splits(measured):
        part = measured.filter(pc.field("split") == split)
        for project in sorted(pc.unique(part["project"]).to_pylist()):
            for name in chosen:
                rows = part.filter((pc.field("project") == project) & (pc.field("contender") == name))
                if rows.num_rows:
                    found.append(_row(rows, name, split, project, measures_in(measured), bootstrap))
    return found


def standouts(
    measured: pa.Table, name: str, split: str, measure: str, count: int
) -> tuple[list[Standout], list[Standout]]:
    """Modules that grew most and modules that shrank most, in relative terms.

    Args:
        measured: ``measured.MEASURED``.
        name: contender.
        split: where to look.
        measure: one of ``measured.MEASURES``.
        count: modules of each kind at most.

    Returns:
        Worst first; best first. Modules of unchanged size are in neither.
    """
    rows = measured.filter((pc.field("contender") == name) & (pc.field("split") == split)).to_pylist()
    found = [_standout(row, measure) for row in rows if _compared(row, measure)]
    found.sort(key=lambda one: (one.ratio, one.project, one.module))
    worst = [one for one in reversed(found) if one.ratio > 1.0]
    best = [one for one in found if one.ratio < 1.0]
    return worst[:count], best[:count]


def failures(measured: pa.Table) -> list[dict[str, Any]]:
    """Rows of ``measured.MEASURED`` whose compile failed."""
    return measured.filter(pc.field("failure") != "").to_pylist()


def ratios(measured: pa.Table, name: str, split: str, measure: str) -> tuple[list[str], np.ndarray]:
    """Module keys and policy over heuristic, float64 [num_modules], of a contender; by ratio, then key.

    Modules without code under either, and those that failed, are left out.
    """
    rows = measured.filter((pc.field("contender") == name) & (pc.field("split") == split))
    policy, baseline = sizes(rows, measure)
    keys = [f"{p}/{m}" for p, m in zip(rows["project"].to_pylist(), rows["module"].to_pylist(), strict=True)]
    good = (policy > 0) & (baseline > 0)  # False for NaN
    pairs = sorted((policy[i] / baseline[i], keys[i]) for i in np.flatnonzero(good))
    return [key for _, key in pairs], np.array([ratio for ratio, _ in pairs], np.float64)


def _splits(measured: pa.Table) -> list[str]:
    present = set(pc.unique(measured["split"]).to_pylist())
    return [split for split in SPLITS if split in present]


def _in_scope(scope: str) -> pc.Expression:
    if scope == "all":
        return pc.scalar(True)
    return ~pc.field("shares_functions") if scope == "unshared" else pc.field("language") == scope


def _row(rows: pa.Table, name: str, split: str, scope: str, measures: Sequence[str], bootstrap: Bootstrap) -> Row:
    comparisons = {
        measure: bootstrap.compare(*sizes(rows, measure), name, split, scope, measure) for measure in measures
    }
    return Row(name, split, scope, pc.sum(rows["truncated"]).as_py() or 0, comparisons)


def _by_module(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("project", "ascending"), ("module", "ascending")])


def _seed_row(
    of_seeds: list[pa.Table], name: str, split: str, scope: str, measures: Sequence[str], bootstrap: Bootstrap
) -> Row:
    comparisons = {}
    for measure in measures:
        pairs = [sizes(rows, measure) for rows in of_seeds]
        policies, baseline = np.stack([policy for policy, _ in pairs]), pairs[0][1]
        comparisons[measure] = bootstrap.compare_seeds(policies, baseline, name, split, scope, measure)
    truncated = np.any([rows["truncated"].fill_null(False).to_numpy() for rows in of_seeds], axis=0)
    return Row(name, split, scope, int(truncated.sum()), comparisons)


def _compared(row: dict[str, Any], measure: str) -> bool:
    """Whether the ratio of the two scores says anything: both are known, and neither is 0 where there is no offset."""
    scores = row[measure], row[f"baseline_{measure}"]
    return None not in scores and (get_measure(measure).offset > 0 or all(scores))


def _standout(row: dict[str, Any], measure: str) -> Standout:
    score, baseline, offset = row[measure], row[f"baseline_{measure}"], get_measure(measure).offset
    return Standout(
        row["project"],
        row["module"],
        score,
        baseline,
        (score + offset) / (baseline + offset),
        row["num_questions"] or 0,
        row["num_inlined"] or 0,
    )
