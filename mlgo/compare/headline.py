"""Headline results: linked sizes first, one observation per project, the seeds of a learner together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.config import judged_split
from mlgo.base.names import LANGUAGE_TITLES, LANGUAGES
from mlgo.compare.inference import Bootstrap, Comparison, Gain
from mlgo.compare.modules import module_scores, with_contenders
from mlgo.compare.programs import (
    ATTRIBUTES,
    BEST_LEVEL,
    GUARDED,
    PROGRAMS,
    Programs,
    best_level,
    complete_programs,
    contenders_of,
    guarded,
    measured_programs,
    ship_references,
)
from mlgo.compare.scores import Contender, compare, corrected, parts
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
    comparison: Comparison
    contender: Contender
    items: str = "programs"
    kind: Kind = "total"
    claimed: bool = False
    brief: bool = False

    @property
    def gain(self) -> Gain:
        """The answer, with its interval over projects and seeds."""
        found: Gain = getattr(self.comparison, self.kind)
        return found


_SIZE = measures.DEFAULT.name
_LINES: Sequence[tuple[str, str, Callable[[Comparison, Contender], HeadlineRow]]] = (
    (PROGRAMS, "total", partial(HeadlineRow, "what ships, in total", claimed=True)),
    (PROGRAMS, "total", partial(HeadlineRow, "what ships, geometric mean of projects", kind="geomean")),
    (PROGRAMS, "total", partial(HeadlineRow, "what ships, median project", kind="median")),
    *(
        (f"{PROGRAMS} {language}", "total", partial(HeadlineRow, f"{title} programs, in total", claimed=True))
        for language, title in LANGUAGE_TITLES.items()
    ),
    (GUARDED, "total", partial(HeadlineRow, f"what ships with a guard, {GUARDED} for each program", brief=True)),
    (BEST_LEVEL, "total", partial(HeadlineRow, f"against the {BEST_LEVEL} for each program", claimed=True)),
    (PROGRAMS, "folded", partial(HeadlineRow, "what ships, identical code folded", brief=True)),
    (PROGRAMS, "compressed", partial(HeadlineRow, "what ships, compressed by zstd", brief=True)),
    (PROGRAMS, "text", partial(HeadlineRow, "what ships, text alone")),
    (PROGRAMS, "read_only", partial(HeadlineRow, "what ships, constants alone")),
    (PROGRAMS, "unwind", partial(HeadlineRow, "what ships, unwind tables alone")),
    ("modules", _SIZE, partial(HeadlineRow, "objects, in total", items="modules", claimed=True)),
    *(
        (f"modules {language}", _SIZE, partial(HeadlineRow, f"{title} objects, in total", items="modules"))
        for language, title in LANGUAGE_TITLES.items()
    ),
    (
        "executed",
        "instructions",
        partial(HeadlineRow, "executed instructions, geometric mean", kind="geomean", brief=True),
    ),
)
"""The lines of the table, in order, by scope and measure of what they show; those without a row are left out."""


@dataclass(frozen=True)
class Headline:
    """All answers about one policy."""

    contender: Contender
    answers: Sequence[HeadlineRow]
    by_seed: dict[int, float]
    references: Sequence[HeadlineRow]  # what would ship otherwise, in total
    not_run: str  # why no program ran; empty if they did, or if nobody asked
    wrong: int  # programs that did not do what they should under the policy

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
    contenders = contenders_of(shipped)
    learner = learner or main_learner(contenders)
    seeds = [one for one in contenders if one.learner == learner]
    if not seeds:
        raise ArtifactError(f"no linked file was measured under a policy of {learner}")
    ships = complete_programs(measured_programs(shipped, [*seeds, *ship_references(shipped)]))
    if not ships.where(split=split).any():
        raise ArtifactError(f"no linked file of a {split} project was measured; run make again")
    names = [one.name for one in seeds]
    rows = compare(ships.only(names), parts(PROGRAMS, LANGUAGES, f"{PROGRAMS} "), bootstrap, split=split)
    rows += compare(guarded(ships).only(names), parts(GUARDED), bootstrap, split=split)
    best = best_level(ships)
    if best is not None:
        rows += compare(replace(ships, baseline=best).only(names), parts(BEST_LEVEL), bootstrap, split=split)
    modules = module_scores(with_contenders(results).filter(pc.field("contender").isin(names)))
    if modules.scores:
        rows += compare(modules, parts("modules", LANGUAGES, "modules "), bootstrap, split=split)
    if programs and set(names) <= set(programs.measured.policies):
        rows += compare(programs.measured.only(names), parts("executed"), bootstrap, split=split)
    answered = {row.scope: row for row in corrected(rows, lambda row: "truth") if row.claim}
    single = {row.contender.seeds[0]: row for row in rows if row.scope == PROGRAMS and len(row.contender.seeds) == 1}
    levels = ships if best is None else ships.with_contender(BEST_LEVEL, best)
    others = compare(levels.only(levels.references), parts(PROGRAMS), bootstrap, together=False, split=split)
    return Headline(
        answered[PROGRAMS].contender,
        [
            line(answered[scope].by(measure), answered[scope].contender)
            for scope, measure, line in _LINES
            if scope in answered
        ],
        {seed: row.by("total").total.value or 0.0 for seed, row in single.items()},
        [HeadlineRow(row.name, row.by("total"), row.contender, brief=row.name in _BRIEF_LEVELS) for row in others],
        programs.not_run if programs else "",
        sum(contender in names for _, contender, _ in programs.wrong) if programs else 0,
    )
