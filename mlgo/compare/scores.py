"""Scores of the same items under several contenders, and the one table of their comparisons."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import Row, RowView
from mlgo.base.config import judged_split
from mlgo.base.names import LANGUAGES, PolicyName
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
    """Who is compared with the built-in heuristic."""

    name: str
    learner: str = ""  # what was trained; empty for a reference
    seeds: tuple[int, ...] = ()  # of the trainings; several where they are taken together

    @property
    def is_policy(self) -> bool:
        """Whether it was trained."""
        return bool(self.learner)

    @classmethod
    def named(cls, name: str) -> "Contender":
        """A policy or reference by its name."""
        policy = PolicyName.find(name)
        return cls(str(policy), policy.learner, (policy.seed,)) if policy else cls(name)


@dataclass(frozen=True)
class ScoreMatrix:
    """Everything measured, in matrices of contenders by items."""

    contenders: Sequence[Contender]
    keys: Sequence[str]  # what each item is called, for example `<project>/<module>`
    items: Mapping[str, np.ndarray]  # object [num_items] by attribute, such as `project`, `module` and `split`
    # By measure, float64 [num_contenders, num_items], as they are compared; NaN where unknown.
    scores: Mapping[str, np.ndarray]
    baseline: Mapping[str, np.ndarray]  # by measure, float64 [num_items], under what they are compared with
    asked: np.ndarray  # bool [num_contenders, num_items], whether a contender was tried on an item at all
    # Object [num_contenders, num_items] by name; what else is known of each, None where it is not.
    details: Mapping[str, np.ndarray] = field(default_factory=dict)
    # By measure, float64 [num_items], best known scores; NaN where there is none.
    best: Mapping[str, np.ndarray] = field(default_factory=dict)

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
        found = np.ones(self.asked.shape[1], bool)
        for name, value in values.items():
            found &= self.items[name] == value
        return found

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

    def subsets(self, by: "Scopes", split: str = "") -> Iterator[tuple[str, str, np.ndarray]]:
        """Split, scope and items of each part that ``by`` names; those without items are left out, if there are any."""
        for name in [split] if split else self.splits:
            of_split = self.where(split=name) if "split" in self.items else self.where()
            for scope, chosen in by(self, name):
                items = chosen & of_split
                if items.any() or not self.keys:
                    yield name, scope, items

    def by_project(self, split: str) -> list[tuple[str, np.ndarray]]:
        """Projects of a split by name, with their items, bool [num_items]."""
        named = sorted({project for project in self.items["project"][self.where(split=split)] if project})
        return [(project, self.where(project=project)) for project in named]


@dataclass(frozen=True)
class ComparisonRow:
    """One contender on one subset of the items."""

    contender: Contender
    split: str
    scope: str
    comparisons: Mapping[str, Comparison]
    counts: RowView = field(default_factory=dict)  # other figures by name, of all items and seeds together
    claim: bool = False  # whether this is a policy over all seeds of its learner: that alone is tested

    @property
    def name(self) -> str:
        """Name of the contender."""
        return self.contender.name

    def by(self, measure: str) -> Comparison:
        """Comparison by one of the measures."""
        return self.comparisons[measure]

    @property
    def only(self) -> Comparison:
        """The comparison where there is one measure."""
        (found,) = self.comparisons.values()
        return found

    def records(self) -> list[Row]:
        """All of it as plain values, one record for each measure, for JSON."""
        known: Row = {"contender": self.name, "learner": self.contender.learner, "seeds": list(self.contender.seeds)}
        known |= {"split": self.split, "scope": self.scope}
        return [{**known, "measure": name, **one.record(), **self.counts} for name, one in self.comparisons.items()]


Scopes = Callable[[ScoreMatrix, str], Iterable[tuple[str, np.ndarray]]]
"""Names parts of a split, with their items, bool [num_items]."""


def parts(scope: str, languages: Sequence[str] = (), prefix: str = "") -> Scopes:
    """All items of a split together, under the name ``scope``, then those of each language."""
    return lambda scores, split: [
        (scope, scores.where()),
        *((prefix + name, scores.where(language=name)) for name in languages),
    ]


whole, by_language = parts(ALL), parts(ALL, LANGUAGES)


Count = Callable[[ScoreMatrix, Sequence[int], np.ndarray], RowView]
"""Counts further figures of some contenders, by their numbers, on items, bool [num_items]."""


def compare(
    scores: ScoreMatrix,
    by: Scopes,
    bootstrap: Bootstrap,
    count: Count = lambda scores, members, items: {},
    together: bool = True,
    family: Callable[[ComparisonRow], Hashable] = lambda row: row.split,
    split: str = "",
) -> list[ComparisonRow]:
    """The table of comparisons: each contender, and each learner over its seeds, on each subset, by every measure.

    Args:
        by: names the subsets of items; each ``scope`` is `ALL` or names a part of the split.
        together: whether learners with several seeds have a row over all of them, too.
        family: names the table that shows a row; p-values of one table and measure are corrected together.
        split: that alone; empty for all.

    Returns:
        By subset, then contender, a learner's seeds together after the last of them. A contender that was tried on no
        item of a subset is left out there, unless there are no items. Only policies over all seeds are tested.
    """
    projects, keys, rows = scores.projects, np.array(scores.keys, object), list[ComparisonRow]()
    for of_split, scope, subset in scores.subsets(by, split):
        for one, members, items, claim in _teams(scores, subset):
            if len(members) > 1 and not together:
                continue
            comparisons, names = {}, keys[items].tolist()
            for measure, under in scores.scores.items():
                best = scores.best[measure][items] if measure in scores.best else None
                sides = under[members][:, items], scores.baseline[measure][items]
                comparisons[measure] = compare_scores(*sides, projects[items], bootstrap, names, best)
            counts = count(scores, members, items)
            rows.append(ComparisonRow(one, of_split, scope, comparisons, counts, claim and together))
    return corrected(rows, family)


def policies_on(measured: ScoreMatrix, split: str, measure: str) -> ScoreMatrix:
    """The policies alone, by one measure."""
    policies = measured.only(measured.policies)
    if not (policies.asked & policies.where(split=split)).any():
        raise ArtifactError(f"the evaluation holds nothing about the {split} split; add {split} to evaluate.splits")
    if measure not in measured.scores:
        raise ArtifactError(f"the evaluation knows nothing of {measure}; it has {', '.join(measured.scores)}")
    return replace(policies, scores={measure: policies.scores[measure]})


def corrected(rows: Sequence[ComparisonRow], family: Callable[[ComparisonRow], Hashable]) -> list[ComparisonRow]:
    """Correct the p-values of what is claimed, by family and measure; nothing else is tested."""
    found = [
        {name: replace(one, corrected_p=None, num_tests=0) for name, one in row.comparisons.items()} for row in rows
    ]
    families: dict[tuple[Hashable, str], list[int]] = {}
    for i, row in enumerate(rows):
        for measure in row.comparisons if row.claim else ():
            families.setdefault((family(row), measure), []).append(i)
    for (_, measure), members in families.items():
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
    rows: pa.Table,
    key: Sequence[str],
    measures: Mapping[str, float],
    attributes: Sequence[str] = (),
    details: Sequence[str] = (),
) -> ScoreMatrix:
    """Pivot a long table into matrices.

    Args:
        rows: each with the name of a ``contender``, attributes of an item, and its scores; the baseline's, if known,
            as ``baseline_<name>``. Attributes and baseline are those of an item's first row.
        measures: what is added to each score.

    Returns:
        Contenders and items in the order in which they come.
    """
    names, contender = _numbered(rows["contender"])
    keys, item = _numbered(item_keys(rows, key))
    first = rows.take(np.unique(item, return_index=True)[1])

    def cells(values: np.ndarray, empty: Any) -> np.ndarray:
        filled = np.full((len(names), len(keys)), empty, values.dtype)
        filled[contender, item] = values
        return filled

    return ScoreMatrix(
        [Contender.named(name) for name in names],
        keys,
        {name: _objects(first[name]) for name in attributes},
        {name: cells(_floats(rows[name]) + offset, np.nan) for name, offset in measures.items()},
        {
            name: _floats(first[f"baseline_{name}"]) + offset
            for name, offset in measures.items()
            if f"baseline_{name}" in rows.column_names
        },
        cells(np.ones(len(rows), bool), False),
        {name: cells(_objects(rows[name]), None) for name in details},
    )


def item_keys(rows: pa.Table, key: Sequence[str]) -> pa.ChunkedArray:
    """What the item of each row is called, for example ``<project>/<module>``."""
    return pc.binary_join_element_wise(*(rows[name] for name in key), "/")


def with_baseline(rows: pa.Table, baseline: pa.Table, key: Sequence[str], measures: Iterable[str]) -> pa.Table:
    """Rows whose item the baseline knows, with its scores as ``baseline_<name>``."""
    place = pc.index_in(item_keys(rows, key), item_keys(baseline, key).combine_chunks())
    for name in measures:
        rows = rows.append_column(f"baseline_{name}", baseline[name].take(place))
    return rows.filter(pc.is_valid(place))


def _numbered(values: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """Distinct values in the order in which they come, and the number of each value, int64 [num_values]."""
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _floats(values: pa.ChunkedArray) -> np.ndarray:
    """Null becomes NaN."""
    return np.asarray(values.cast(pa.float64()))


def _objects(values: pa.ChunkedArray) -> np.ndarray:
    """Null becomes None."""
    return np.fromiter(values.to_pylist(), object, len(values))


def _teams(measured: ScoreMatrix, items: np.ndarray) -> Iterator[tuple[Contender, list[int], np.ndarray, bool]]:
    """Contenders that were tried on some of these items: their numbers, the items, and whether they are all seeds."""
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
