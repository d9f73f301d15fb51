"""Scores of the same items under several contenders, and the one table of their comparisons."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlgo.base.config import judged_split
from mlgo.base.names import PolicyName
from mlgo.compare.inference import Bootstrap, Comparison, compare_scores, correct
from mlgo.errors import ArtifactError

SPLITS = ("test", "validation", "train")
"""Splits in the order in which they are shown."""

ALL = "all"
"""Scope of all items of a split."""

BEST = "best known"
"""Contender that has the least known score of each item: under the heuristic, a search, or any policy."""


@dataclass(frozen=True)
class Contender:
    """Who is compared with the built-in heuristic.

    Attributes:
        name: as tables, pages and JSON call it.
        learner: what was trained; empty for a reference.
        seeds: of the trainings; several where they are taken together.
    """

    name: str
    learner: str = ""
    seeds: tuple[int, ...] = ()

    @property
    def is_policy(self) -> bool:
        """Whether it was trained."""
        return bool(self.learner)

    @classmethod
    def policy(cls, learner: str, seed: int) -> "Contender":
        """A policy by what trained it."""
        return cls(str(PolicyName(learner, seed)), learner, (seed,))

    @classmethod
    def named(cls, name: str) -> "Contender":
        """A policy or reference by its name."""
        policy = PolicyName.find(name)
        return cls.policy(*policy) if policy else cls(name)


@dataclass(frozen=True)
class ItemSubset:
    """Items that are compared together.

    Attributes:
        split: train, validation or test.
        scope: which of the split's items, `ALL` or a name of the part.
        items: bool [num_items].
    """

    split: str
    scope: str
    items: np.ndarray


@dataclass(frozen=True)
class ScoreMatrix:
    """Everything measured, in matrices of contenders by items.

    Attributes:
        contenders: in the order of the tables.
        keys: what each item is called, for example ``<project>/<module>``.
        items: object [num_items] by attribute, such as ``project``, ``module`` and ``split``.
        scores: by measure, float64 [num_contenders, num_items], as they are compared; NaN where unknown.
        baseline: by measure, float64 [num_items], under what they are compared with.
        asked: bool [num_contenders, num_items], whether a contender was tried on an item at all.
        details: object [num_contenders, num_items] by name; what else is known of each, None where it is not.
        best: by measure, float64 [num_items], best known scores; NaN where there is none.
    """

    contenders: Sequence[Contender]
    keys: Sequence[str]
    items: Mapping[str, np.ndarray]
    scores: Mapping[str, np.ndarray]
    baseline: Mapping[str, np.ndarray]
    asked: np.ndarray
    details: Mapping[str, np.ndarray] = field(default_factory=dict)
    best: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def measures(self) -> list[str]:
        """Names of the measures."""
        return list(self.scores)

    @property
    def policies(self) -> list[str]:
        """Names of those that were trained."""
        return [one.name for one in self.contenders if one.is_policy]

    @property
    def references(self) -> list[str]:
        """Names of the others."""
        return [one.name for one in self.contenders if not one.is_policy]

    @property
    def projects(self) -> np.ndarray:
        """Project of each item, [num_items]; where items belong to none, each is one by itself."""
        known = self.items.get("project")
        return np.array(self.keys, object) if known is None or not any(known) else known

    @property
    def splits(self) -> list[str]:
        """Splits that have items, as they are shown."""
        return [split for split in SPLITS if (self.items["split"] == split).any()]

    @property
    def judged(self) -> str:
        """The split that decides."""
        return judged_split(self.splits)

    def index(self, name: str) -> int:
        """Number of the contender of this name."""
        return next(i for i, one in enumerate(self.contenders) if one.name == name)

    def where(self, **values: Any) -> np.ndarray:
        """Items with these attributes, bool [num_items]."""
        return np.logical_and.reduce(
            [np.ones(self.asked.shape[1], bool), *(self.items[k] == v for k, v in values.items())]
        )

    def with_contender(self, name: str, scores: Mapping[str, np.ndarray]) -> "ScoreMatrix":
        """One more contender beside the others, by its measures alone: float64 [num_items] each."""
        return replace(
            self,
            contenders=[*self.contenders, Contender(name)],
            scores={measure: np.vstack([self.scores[measure], one]) for measure, one in scores.items()},
            asked=np.vstack([self.asked, np.ones(len(self.keys), bool)]),
        )

    def only(self, names: Sequence[str]) -> "ScoreMatrix":
        """Some of the contenders, by name."""
        chosen = [self.index(name) for name in names]
        return replace(
            self,
            contenders=[self.contenders[i] for i in chosen],
            scores={name: scores[chosen] for name, scores in self.scores.items()},
            asked=self.asked[chosen],
            details={name: values[chosen] for name, values in self.details.items()},
        )

    def subsets(self, scopes: Callable[[str], Iterable[tuple[str, np.ndarray]]]) -> list[ItemSubset]:
        """A place for each split and what ``scopes`` names of it, bool [num_items]; without items there is none."""
        return [
            ItemSubset(split, scope, items)
            for split in self.splits
            for scope, chosen in scopes(split)
            if (items := chosen & self.where(split=split)).any()
        ]

    def by_project(self, split: str) -> list[tuple[str, np.ndarray]]:
        """Projects of a split by name, with their items, bool [num_items]."""
        named = sorted({project for project in self.items["project"][self.where(split=split)] if project})
        return [(project, self.where(project=project)) for project in named]


@dataclass(frozen=True)
class ComparisonRow:
    """One contender at one place.

    Attributes:
        contender: who.
        split: train, validation or test.
        scope: which of its items.
        comparisons: by measure.
        counts: other figures by name, of all items and seeds together.
        claim: whether this is a policy over all seeds of its learner: that alone is tested.
    """

    contender: Contender
    split: str
    scope: str
    comparisons: Mapping[str, Comparison]
    counts: Mapping[str, Any] = field(default_factory=dict)
    claim: bool = False

    @property
    def name(self) -> str:
        """Name of the contender."""
        return self.contender.name

    def by(self, measure: str) -> Comparison:
        """Comparison by one of the measures."""
        return self.comparisons[measure]

    def records(self) -> list[dict[str, Any]]:
        """All of it as plain values, one record for each measure, for JSON."""
        known = {
            "contender": self.name,
            "learner": self.contender.learner,
            "seeds": list(self.contender.seeds),
            "split": self.split,
            "scope": self.scope,
        }
        return [{**known, "measure": name, **one.record(), **self.counts} for name, one in self.comparisons.items()]


Count = Callable[[ScoreMatrix, Sequence[int], np.ndarray], Mapping[str, Any]]
"""Counts further figures of some contenders, by their numbers, on items, bool [num_items]."""


def compare(
    measured: ScoreMatrix,
    places: Iterable[ItemSubset],
    bootstrap: Bootstrap,
    count: Count = lambda measured, members, items: {},
    together: bool = True,
    family: Callable[[ComparisonRow], Hashable] = lambda row: row.split,
) -> list[ComparisonRow]:
    """The table of comparisons: each contender, and each learner over its seeds, at each place, by every measure.

    Args:
        measured: what is compared.
        places: where.
        bootstrap: makes intervals and tests.
        count: counts other figures of a row.
        together: whether learners with several seeds have a row over all of them, too.
        family: names the table that shows a row; p-values of one table and measure are corrected together.

    Returns:
        By place, then contender, a learner's seeds together after the last of them. A contender that was tried on no
        item of a place is left out there, unless the place has none. References and single ones of several seeds are
        not tested: nothing is claimed about them.
    """
    projects, keys = measured.projects, np.array(measured.keys, object)
    rows = [
        ComparisonRow(
            one,
            place.split,
            place.scope,
            {
                measure: compare_scores(
                    measured.scores[measure][members][:, items],
                    measured.baseline[measure][items],
                    projects[items],
                    bootstrap,
                    keys[items].tolist(),
                    measured.best[measure][items] if measure in measured.best else None,
                )
                for measure in measured.measures
            },
            count(measured, members, items),
            claim and together,
        )
        for place in places
        for one, members, items, claim in _teams(measured, place.items)
        if together or len(members) == 1
    ]
    return corrected(rows, family)


def policies_on(measured: ScoreMatrix, split: str, measure: str) -> ScoreMatrix:
    """The policies alone, by one measure.

    Raises:
        ArtifactError: no policy was tried on this split, or nothing is known of the measure.
    """
    policies = measured.only(measured.policies)
    if not (policies.asked & policies.where(split=split)).any():
        raise ArtifactError(f"the evaluation holds nothing about the {split} split; add {split} to evaluate.splits")
    if measure not in measured.scores:
        raise ArtifactError(f"the evaluation knows nothing of {measure}; it has {', '.join(measured.measures)}")
    return replace(policies, scores={measure: policies.scores[measure]})


def corrected(rows: Sequence[ComparisonRow], family: Callable[[ComparisonRow], Hashable]) -> list[ComparisonRow]:
    """Correct the p-values of what is claimed, by family and measure; nothing else is tested.

    Args:
        rows: in any order.
        family: names the table that shows a row.
    """
    found = [{name: one.untested for name, one in row.comparisons.items()} for row in rows]
    parts: dict[tuple[Hashable, str], list[int]] = {}
    for i, row in enumerate(rows):
        for measure in row.comparisons if row.claim else ():
            parts.setdefault((family(row), measure), []).append(i)
    for (_, measure), members in parts.items():
        for i, one in zip(members, correct([rows[i].by(measure) for i in members]), strict=True):
            found[i][measure] = one
    return [replace(row, comparisons=one) for row, one in zip(rows, found, strict=True)]


def claims(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """Rows of policies over all seeds of their learner."""
    return [row for row in rows if row.claim]


def by_contender(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """Rows sorted by contender, seeds taken together at the end; otherwise in the order given."""
    known = sorted(rows, key=lambda row: len(row.contender.seeds) > 1)
    order = list(dict.fromkeys(row.name for row in known))
    return sorted(known, key=lambda row: order.index(row.name))


def score_matrix(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[str],
    measures: Mapping[str, float],
    attributes: Sequence[str] = (),
    details: Sequence[str] = (),
) -> ScoreMatrix:
    """Put rows of tables into matrices.

    Args:
        rows: each with a `Contender`, the attributes of an item, and its scores; the baseline's as ``baseline_<name>``.
        key: attributes that tell items apart.
        measures: offset that is added to scores, by measure.
        attributes: of the items, the key among them.
        details: further columns to keep.

    Returns:
        Contenders and items in the order in which they come.
    """
    items: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    cells: list[tuple[Contender, tuple[Any, ...], Mapping[str, Any]]] = []
    for row in rows:
        cells.append((row["contender"], tuple(row[name] for name in key), row))
        items.setdefault(cells[-1][1], row)
    contenders = list(dict.fromkeys(contender for contender, _, _ in cells))
    number = {item: i for i, item in enumerate(items)}
    shape = len(contenders), len(items)
    asked = np.zeros(shape, bool)
    scores = {name: np.full(shape, np.nan) for name in measures}
    kept = {name: np.full(shape, None, object) for name in details}
    for contender, item, row in cells:
        at = contenders.index(contender), number[item]
        asked[at] = True
        for name, offset in measures.items():
            if row[name] is not None:
                scores[name][at] = row[name] + offset
        for name in details:
            kept[name][at] = row[name]
    return ScoreMatrix(
        contenders,
        ["/".join(item) for item in items],
        {name: np.array([row[name] for row in items.values()], object) for name in attributes},
        scores,
        {
            name: offset + np.array([row[f"baseline_{name}"] for row in items.values()], np.float64)  # None becomes NaN
            for name, offset in measures.items()
        },
        asked,
        kept,
    )


def _teams(measured: ScoreMatrix, items: np.ndarray) -> Iterator[tuple[Contender, list[int], np.ndarray, bool]]:
    """Contenders that were tried on some of these items: their numbers, the items, and whether they are all seeds.

    Single ones come first, then the seeds of a learner together.
    """
    by_learner: dict[str, list[int]] = {}
    for i, one in enumerate(measured.contenders):
        if (items & measured.asked[i]).any() or not items.any():
            by_learner.setdefault(one.learner or one.name, []).append(i)
    for learner, members in by_learner.items():
        for i in members:
            one = measured.contenders[i]
            yield one, [i], items & measured.asked[i], one.is_policy and len(members) == 1
        if len(members) > 1:
            seeds = tuple(seed for i in members for seed in measured.contenders[i].seeds)
            whole = items & measured.asked[members].any(axis=0)
            yield Contender(f"{learner}-mean", learner, seeds), members, whole, True
