"""Headline results: linked sizes first, one observation per project, the seeds of a learner together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.config import judged_split
from mlgo.base.names import LANGUAGE_TITLES, LANGUAGES
from mlgo.compare.executed import Programs
from mlgo.compare.inference import Bootstrap, Comparison, Gain
from mlgo.compare.modules import module_scores, with_contenders
from mlgo.compare.scores import ComparisonRow, Contender, ItemSubset, ScoreMatrix, compare, corrected
from mlgo.compare.shipped import (
    ATTRIBUTES,
    BEST_LEVEL,
    GUARDED,
    PROGRAMS,
    against_best_level,
    all_programs,
    complete_programs,
    guarded,
    measured_programs,
    ship_references,
    with_best_level,
)
from mlgo.errors import ArtifactError
from mlgo.objects import measures
from mlgo.objects.symbols import SHIPPED

Kind = Literal["total", "geomean", "median"]
"""Which gain of a comparison answers."""

SHIP_COLUMNS = (*ATTRIBUTES, *SHIPPED, "contender", "folded")
"""Columns of ``artifacts.SHIPPED_SIZES`` that answers come from; tables that lack others will do."""

_CLONE = "bc"
_BRIEF_LEVELS = ("-Os", "-O2")


@dataclass(frozen=True)
class HeadlineRow:
    """One line of the table; the contender is the policy over all seeds, or a reference."""

    asked: str
    kind: Kind
    comparison: Comparison
    items: str
    contender: Contender
    claimed: bool = False
    brief: bool = False

    @property
    def gain(self) -> Gain:
        """The answer, with its interval over projects and seeds."""
        found: Gain = getattr(self.comparison, self.kind)
        return found


class _Line(NamedTuple):
    """What is asked of one row of comparisons."""

    scope: str
    measure: str
    asked: str
    items: str = "programs"
    kind: Kind = "total"
    claimed: bool = False
    brief: bool = False

    def answer(self, row: ComparisonRow) -> HeadlineRow:
        return HeadlineRow(
            self.asked,
            self.kind,
            row.by(self.measure),
            self.items,
            row.contender,
            self.claimed,
            self.claimed or self.brief,
        )


_SIZE = measures.DEFAULT.name
_LINES = (
    _Line(PROGRAMS, "total", "what ships, in total", claimed=True),
    _Line(PROGRAMS, "total", "what ships, geometric mean of projects", kind="geomean", brief=True),
    _Line(PROGRAMS, "total", "what ships, median project", kind="median"),
    *(
        _Line(f"{PROGRAMS} {language}", "total", f"{title} programs, in total", claimed=True)
        for language, title in LANGUAGE_TITLES.items()
    ),
    _Line(GUARDED, "total", f"what ships with a guard, {GUARDED} for each program", brief=True),
    _Line(BEST_LEVEL, "total", f"against the {BEST_LEVEL} for each program", claimed=True),
    _Line(PROGRAMS, "folded", "what ships, identical code folded"),
    _Line(PROGRAMS, "compressed", "what ships, compressed by zstd", brief=True),
    _Line(PROGRAMS, "text", "what ships, text alone"),
    _Line(PROGRAMS, "read_only", "what ships, constants alone"),
    _Line(PROGRAMS, "unwind", "what ships, unwind tables alone"),
    _Line("modules", _SIZE, "objects, in total", "modules", claimed=True),
    *(
        _Line(f"modules {language}", _SIZE, f"{title} objects, in total", "modules")
        for language, title in LANGUAGE_TITLES.items()
    ),
    _Line("executed", "instructions", "executed instructions, geometric mean", kind="geomean", brief=True),
)
"""The lines of the table, in order; those without a row are left out."""


@dataclass(frozen=True)
class Headline:
    """All answers about one policy.

    Attributes:
        references: what would ship otherwise, in total.
        not_run: why no program ran; empty if they did, or if nobody asked.
        wrong: programs that did not do what they should under the policy.
    """

    contender: Contender
    answers: Sequence[HeadlineRow]
    by_seed: dict[int, float]
    references: Sequence[HeadlineRow]
    not_run: str
    wrong: int

    @property
    def headline(self) -> Comparison:
        """What ships, in total."""
        return self.answers[0].comparison


def main_learner(contenders: Sequence[Contender]) -> str:
    """The learner whose policies are told about: the last one, but for the clone, from which others start."""
    learners = list(dict.fromkeys(one.learner for one in contenders if one.is_policy))
    if not learners:
        raise ArtifactError("no policy was evaluated; run make again")
    return ([one for one in learners if one != _CLONE] or learners)[-1]


def headline(
    shipped: pa.Table,
    results: pa.Table,
    programs: Programs | None,
    bootstrap: Bootstrap,
    learner: str = "",
    split: str = "",
) -> Headline:
    """Headline results of a split: linked sizes first, one observation per project.

    Args:
        shipped: ``artifacts.SHIPPED_SIZES``.
        results: ``artifacts.RESULTS``.
        learner: whose policies; empty for `main_learner`.
    """
    split = split or judged_split(shipped["split"].to_pylist())
    contenders = [Contender.named(name) for name in dict.fromkeys(shipped["contender"].to_pylist())]
    learner = learner or main_learner(contenders)
    seeds = [one for one in contenders if one.learner == learner]
    if not seeds:
        raise ArtifactError(f"no linked file was measured under a policy of {learner}")
    ships = complete_programs(measured_programs(shipped, [*seeds, *ship_references(shipped)]))
    if not ships.where(split=split).any():
        raise ArtifactError(f"no linked file of a {split} project was measured; run make again")
    names = [one.name for one in seeds]
    rows = _rows(ships.only(names), split, LANGUAGES, bootstrap)
    rows += _rows(guarded(ships).only(names), split, (), bootstrap, GUARDED)
    against = against_best_level(ships)
    if against is not None:
        rows += _rows(against.only(names), split, (), bootstrap, BEST_LEVEL)
    evaluated = with_contenders(results)
    modules = module_scores(evaluated.filter(pc.field("contender").isin(names)))
    if modules.measures:
        rows += _rows(modules, split, LANGUAGES, bootstrap, "modules")
    ran = programs.measured if programs else None
    if ran is not None and set(names) <= set(ran.policies):
        chosen = ran.only(names)
        rows += compare(chosen, [ItemSubset(split, "executed", chosen.where())], bootstrap)
    told = {row.scope: row for row in corrected(rows, lambda row: "truth") if row.claim}
    single = {row.contender.seeds[0]: row for row in rows if row.scope == PROGRAMS and len(row.contender.seeds) == 1}
    levels = with_best_level(ships)
    others = compare(levels.only(levels.references), all_programs, bootstrap, together=False, split=split)
    return Headline(
        told[PROGRAMS].contender,
        [line.answer(told[line.scope]) for line in _LINES if line.scope in told],
        {seed: row.by("total").total.value or 0.0 for seed, row in single.items()},
        [
            HeadlineRow(row.name, "total", row.by("total"), "programs", row.contender, brief=row.name in _BRIEF_LEVELS)
            for row in others
        ],
        programs.not_run if programs else "",
        sum(contender in names for _, contender, _ in programs.wrong) if programs else 0,
    )


def _rows(
    measured: ScoreMatrix, split: str, languages: Sequence[str], bootstrap: Bootstrap, scope: str = PROGRAMS
) -> list[ComparisonRow]:
    """Comparisons on a split: on everything, and by language."""

    def scopes(scores: ScoreMatrix, _: str) -> Iterator[tuple[str, np.ndarray]]:
        yield scope, scores.where()
        for name in languages:
            yield f"{scope} {name}", scores.where(language=name)

    return compare(measured, scopes, bootstrap, split=split)
