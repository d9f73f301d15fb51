"""Two trainings compared: by how much one gains more than the other, over the same projects and seeds."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, read_table
from mlgo.base.config import judged_split
from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare.headline import SHIP_COLUMNS, main_learner
from mlgo.compare.inference import POINTS_ONLY, Bootstrap, Gain, by_project, differences, gains
from mlgo.compare.modules import policy_scores
from mlgo.compare.scores import Contender, ScoreMatrix
from mlgo.compare.shipped import complete_programs, measured_programs
from mlgo.errors import ArtifactError, ConfigError
from mlgo.objects import measures
from mlgo.report.headline_page import bootstrap_of
from mlgo.report.pages import Column, RenderedPage, Table, gain_column, text_column

_SCOPES = {"": "", **{name: f" of {title}" for name, title in LANGUAGE_TITLES.items()}}


@dataclass(frozen=True)
class Difference:
    """One line of the table.

    Attributes:
        gain: by how much the first exceeds the second, as a share of the baseline, with its interval.
        num_items: programs or modules whose sizes are known under all seeds of both.
    """

    asked: str
    first: float
    second: float
    gain: Gain
    ahead: int
    seeds: Sequence[int]
    num_items: int
    num_projects: int
    items: Literal["programs", "modules"]


@dataclass(frozen=True)
class Side:
    """Tables of an evaluation, and whose policies of it count.

    Attributes:
        shipped: ``artifacts.SHIPPED_SIZES``.
        results: ``artifacts.RESULTS``.
    """

    shipped: pa.Table
    results: pa.Table
    learner: str

    @property
    def seeds(self) -> set[int]:
        """Seeds whose programs were measured."""
        named = [Contender.named(name) for name in set(self.shipped["contender"].to_pylist())]
        return {seed for one in named if one.learner == self.learner for seed in one.seeds}

    def programs(self, seeds: Sequence[int]) -> ScoreMatrix:
        """Linked files under its policies of some seeds."""
        policies = [Contender.policy(self.learner, seed) for seed in seeds]
        return complete_programs(measured_programs(self.shipped, policies))

    def objects(self, seeds: Sequence[int]) -> ScoreMatrix:
        """Modules under the same."""
        chosen = (pc.field("policy") == self.learner) & pc.field("seed").isin(seeds)
        return policy_scores(self.results.filter(chosen).sort_by("seed"))


def compare_sides(first: Side, second: Side, bootstrap: Bootstrap, split: str = "") -> list[Difference]:
    """By how much one training gains more than another, in what ships and in objects."""
    seeds = sorted(first.seeds & second.seeds)
    if not seeds:
        raise ArtifactError(
            f"no seed is common to both: {first.learner} has {sorted(first.seeds)}, {second.learner} "
            f"{sorted(second.seeds)}; evaluate policies of the same seeds"
        )
    split = split or judged_split(first.shipped["split"].to_pylist())
    ships = _Pair.of(first.programs(seeds), second.programs(seeds), "total", split, seeds)
    objects = _Pair.of(first.objects(seeds), second.objects(seeds), measures.DEFAULT.name, split, seeds)
    return [*_lines(ships, "what ships", "programs", bootstrap), *_lines(objects, "objects", "modules", bootstrap)]


@dataclass(frozen=True)
class _Pair:
    """Scores of the same items under both."""

    scores: np.ndarray
    baseline: np.ndarray
    attributes: Mapping[str, np.ndarray]
    seeds: Sequence[int]

    @classmethod
    def of(cls, first: ScoreMatrix, second: ScoreMatrix, measure: str, split: str, seeds: Sequence[int]) -> "_Pair":
        """Bring both together, item by item."""
        found, theirs = _positions(first, split), _positions(second, split)
        keys = [key for key in found if key in theirs]
        if not keys:
            raise ArtifactError(f"no {split} project was measured under both; evaluate both on the same corpus")
        at = [found[key] for key in keys]
        sides = [(first, at), (second, [theirs[key] for key in keys])]
        before, again = (side.baseline[measure][where] for side, where in sides)
        for key, a, b in zip(keys, before, again, strict=True):
            if a != b and np.isfinite([a, b]).all():
                raise ArtifactError(
                    f"{key} has {a:,.0f} bytes under the heuristic in the first run and {b:,.0f} in the second; "
                    "compare runs of the same corpus, compiler and options"
                )
        scores = np.stack([side.scores[measure][:, where] for side, where in sides])
        usable = np.isfinite(scores).all(axis=(0, 1)) & np.isfinite(before) & (before > 0)
        attributes = {name: first.items[name][at][usable] for name in ("project", "language")}
        return cls(scores[..., usable], before[usable], attributes, seeds)


def _positions(measured: ScoreMatrix, split: str) -> dict[str, int]:
    """Number of each item of a split, by its key."""
    return {key: at for at, key in enumerate(measured.keys) if measured.items["split"][at] == split}


def _lines(
    pair: _Pair, asked: str, items: Literal["programs", "modules"], bootstrap: Bootstrap
) -> Iterator[Difference]:
    """In total and by project, then in total by language."""
    for language, title in _SCOPES.items():
        chosen = np.array([language in ("", one) for one in pair.attributes["language"]], bool)
        if not chosen.any():
            continue
        number = np.unique(pair.attributes["project"][chosen].astype(str), return_inverse=True)[1]
        before = by_project(pair.baseline[None, chosen], number)[0]
        sides = [by_project(scores[:, chosen], number) for scores in pair.scores]
        together = [gains(after, before, POINTS_ONLY) for after in sides]
        by_seed = [[gains(one[None], before, POINTS_ONLY) for one in after] for after in sides]
        found = differences(sides[0], sides[1], before, bootstrap)
        for at, kind in enumerate(("in total",) if language else ("in total", "geometric mean of projects")):
            yield Difference(
                f"{asked}{title}, {kind}",
                _value(together[0][at]),
                _value(together[1][at]),
                found[at],
                sum(_value(a[at]) > _value(b[at]) for a, b in zip(*by_seed, strict=True)),
                pair.seeds,
                int(chosen.sum()),
                len(before),
                items,
            )


def _value(gain: Gain) -> float:
    return gain.value or 0.0


_NOTE = (
    "Gains over the heuristic, positive is smaller. Differences are first minus second, in points of percent. "
    "Intervals resample projects and seeds, the same for both."
)


def show(args: argparse.Namespace) -> RenderedPage:
    """The table; the same as Markdown."""
    if args.against is None:
        raise ConfigError("mlgo report difference needs --against DIR, the folder of the results to compare with")
    first, second = (read_side(folder, args.learner or "") for folder in (args.data, args.against))
    found = compare_sides(first, second, bootstrap_of(args.preset))
    head = [
        f"First: {first.learner} of {args.data}. Second: {second.learner} of {args.against}. "
        f"Seeds {', '.join(map(str, found[0].seeds))}."
    ]
    table = difference_table(found)
    return RenderedPage(
        "\n".join([*head, "", table.aligned(), "", _NOTE]),
        {"first": str(args.data), "second": str(args.against), "lines": [asdict(one) for one in found]},
        "\n".join([*head, "", table.markdown(), "", _NOTE, ""]),
    )


def read_side(data: Path, learner: str = "") -> Side:
    """Tables of a run."""
    shipped = read_table(data / "evaluation" / "shipped.parquet", SHIPPED_SIZES, list(SHIP_COLUMNS))
    results = read_table(data / "evaluation" / "results.parquet", RESULTS)
    contenders = [Contender.named(name) for name in dict.fromkeys(shipped["contender"].to_pylist())]
    return Side(shipped, results, learner or main_learner(contenders))


def difference_table(found: list[Difference]) -> Table:
    """What is compared, line by line."""
    return Table(
        [
            text_column("", lambda row: row.asked),
            gain_column("first", lambda row: row.first),
            gain_column("second", lambda row: row.second),
            gain_column("difference", lambda row: row.gain),
            text_column("first is ahead", lambda row: f"in {row.ahead} of {len(row.seeds)} seeds"),
            Column(
                "of",
                lambda row, style: (
                    f"{style.count(row.num_items)} {row.items} of {style.count(row.num_projects)} projects"
                ),
                left=True,
            ),
        ],
        found,
    )
