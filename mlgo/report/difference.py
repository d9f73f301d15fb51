"""Two trainings compared: by how much one gains more than the other, over the same projects and seeds."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare.headline import main_learner
from mlgo.compare.inference import POINTS_ONLY, Bootstrap, Gain, by_project, gains
from mlgo.compare.modules import policy_scores
from mlgo.compare.programs import complete_programs, contenders_of, measured_programs
from mlgo.compare.scores import ScoreMatrix
from mlgo.errors import ArtifactError, ConfigError
from mlgo.objects import measures
from mlgo.report.headline_page import bootstrap_of, read_evaluation
from mlgo.report.pages import RenderedPage, Table, gain_column, table_page, text_column

SHIPS_IN_TOTAL, SHIPS_BY_PROJECT = "what ships, in total", "what ships, geometric mean of projects"
"""Lines of `compare_sides` that are of all linked files."""

_SCOPES = {"": "", **{name: f" of {title}" for name, title in LANGUAGE_TITLES.items()}}


@dataclass(frozen=True)
class Difference:
    """One line of the table: by how much the first exceeds the second, as a share of the baseline."""

    asked: str
    first: float
    second: float
    gain: Gain
    ahead: int
    seeds: Sequence[int]
    num_items: int
    num_projects: int
    items: str


@dataclass(frozen=True)
class Side:
    """Linked files and modules under the policies of a learner."""

    learner: str
    programs: ScoreMatrix
    objects: ScoreMatrix

    @classmethod
    def of(cls, shipped: pa.Table, results: pa.Table, learner: str) -> "Side":
        """From ``artifacts.SHIPPED_SIZES`` and ``artifacts.RESULTS`` of a run; its main learner, if none is named."""
        contenders = contenders_of(shipped)
        learner = learner or main_learner(contenders)
        policies = [one for one in contenders if one.learner == learner]
        programs = complete_programs(measured_programs(shipped, policies))
        return cls(learner, programs, policy_scores(results.filter(pc.field("policy") == learner)))

    @property
    def seeds(self) -> set[int]:
        """Seeds whose programs were measured."""
        return {seed for one in self.programs.contenders for seed in one.seeds}


def compare_sides(first: Side, second: Side, bootstrap: Bootstrap) -> list[Difference]:
    """By how much one training gains more than another, in what ships and in objects."""
    seeds = sorted(first.seeds & second.seeds)
    if not seeds:
        raise ArtifactError(
            f"no seed is common to both: {first.learner} has {sorted(first.seeds)}, {second.learner} "
            f"{sorted(second.seeds)}; evaluate policies of the same seeds"
        )
    names, others = ([f"{side.learner}-s{seed}" for seed in seeds] for side in (first, second))
    split, size = first.programs.judged, measures.DEFAULT.name
    programs = _paired(first.programs.only(names), second.programs.only(others), "total", split)
    objects = _paired(first.objects.only(names), second.objects.only(others), size, split)
    return [
        *_lines("what ships", "programs", programs, seeds, bootstrap),
        *_lines("objects", "modules", objects, seeds, bootstrap),
    ]


_Pair = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _paired(first: ScoreMatrix, second: ScoreMatrix, measure: str, split: str) -> _Pair:
    """The same items under both: scores, float64 [2, num_seeds, num_items]; baseline, project and language of each."""
    sides = (first, second)
    ours, theirs = ({side.keys[i]: i for i in np.flatnonzero(side.where(split=split)).tolist()} for side in sides)
    keys = [key for key in ours if key in theirs]
    if not keys:
        raise ArtifactError(f"no {split} project was measured under both; evaluate both on the same corpus")
    places = [[place[key] for key in keys] for place in (ours, theirs)]
    before, again = (side.baseline[measure][place] for side, place in zip(sides, places, strict=True))
    for key, a, b in zip(keys, before, again, strict=True):
        if a != b and np.isfinite([a, b]).all():
            raise ArtifactError(
                f"{key} has {a:,.0f} bytes under the heuristic in the first run and {b:,.0f} in the second; "
                "compare runs of the same corpus, compiler and options"
            )
    scores = np.stack([side.scores[measure][:, place] for side, place in zip(sides, places, strict=True)])
    usable = np.isfinite(scores).all(axis=(0, 1)) & np.isfinite(before) & (before > 0)
    project, language = (first.items[name][places[0]][usable] for name in ("project", "language"))
    return scores[..., usable], before[usable], project, language


def _lines(asked: str, items: str, pair: _Pair, seeds: Sequence[int], bootstrap: Bootstrap) -> Iterator[Difference]:
    """In total and by project, then in total by language."""
    scores, baseline, projects, languages = pair
    for language, title in _SCOPES.items():
        chosen = np.array([language in ("", one) for one in languages], bool)
        if not chosen.any():
            continue
        number = np.unique(projects[chosen].astype(str), return_inverse=True)[1]
        before = by_project(baseline[None, chosen], number)[0]
        sides = [by_project(side[:, chosen], number) for side in scores]
        found = gains(sides[0], before, bootstrap, sides[1])
        for at, kind in enumerate(("in total",) if language else ("in total", "geometric mean of projects")):
            first, second = (_gain(after, before, at) for after in sides)
            by_seed = zip(*([_gain(one[None], before, at) for one in after] for after in sides), strict=True)
            ahead, num_items = sum(ours > theirs for ours, theirs in by_seed), int(chosen.sum())
            line = f"{asked}{title}, {kind}"
            yield Difference(line, first, second, found[at], ahead, seeds, num_items, len(before), items)


def _gain(after: np.ndarray, before: np.ndarray, at: int) -> float:
    return gains(after, before, POINTS_ONLY)[at].value or 0.0


_NOTE = (
    "Gains over the heuristic, positive is smaller. Differences are first minus second, in points of percent. "
    "Intervals resample projects and seeds, the same for both."
)


def show(args: argparse.Namespace) -> RenderedPage:
    """The table; the same as Markdown."""
    if args.against is None:
        raise ConfigError("mlgo report difference needs --against DIR, the folder of the results to compare with")
    first, second = (Side.of(*read_evaluation(folder), args.learner or "") for folder in (args.data, args.against))
    found = compare_sides(first, second, bootstrap_of(args.preset))
    head = (
        f"First: {first.learner} of {args.data}. Second: {second.learner} of {args.against}. "
        f"Seeds {', '.join(map(str, found[0].seeds))}."
    )
    columns = [
        text_column("", lambda row: row.asked),
        gain_column("first", lambda row: row.first),
        gain_column("second", lambda row: row.second),
        gain_column("difference", lambda row: row.gain),
        text_column("first is ahead", lambda row: f"in {row.ahead} of {len(row.seeds)} seeds"),
        text_column("of", lambda row: f"{row.num_items:,} {row.items} of {row.num_projects:,} projects"),
    ]
    record = {"first": str(args.data), "second": str(args.against), "lines": [asdict(one) for one in found]}
    return table_page(Table(columns, found), _NOTE, record, head)
