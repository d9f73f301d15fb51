"""What ships: linked files under policies beside the heuristic, one by one and in total."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import Row, RowView
from mlgo.base.names import LANGUAGES
from mlgo.compare.inference import POINTS_ONLY, Bootstrap
from mlgo.compare.scores import (
    BEST,
    ComparisonRow,
    Contender,
    ScoreMatrix,
    compare,
    item_keys,
    parts,
    score_matrix,
    with_baseline,
)
from mlgo.host.tasks.task import HEURISTIC
from mlgo.objects.symbols import SHIPPED

FIGURES = (*SHIPPED, "folded")
"""What is compared: sizes of a linked file, and the total once functions with identical code are folded into one."""

PROGRAMS = "programs"
"""Scope of all programs of a split."""

BEST_LEVEL = "best of -Os and -Oz"
"""What ships if each program is built at the level at which it is smaller."""

GUARDED = "smaller of both"
"""What ships if each program is linked under the policy and under the heuristic, and the smaller file is kept."""

_SIZE_LEVELS = ("-Oz", "-Os")
_KEY = ("project", "program")
_ROW_KEY = ("contender", *_KEY)

ATTRIBUTES = ("project", "program", "split", "kind", "language", "num_modules", "num_foreign")
"""What is known of a linked file."""


def measured_programs(shipped: pa.Table, policies: Sequence[Contender]) -> ScoreMatrix:
    """Bring each policy's sizes and the heuristic's together, in the order of the table.

    Args:
        shipped: ``artifacts.SHIPPED_SIZES``.
    """
    whole, folded = (shipped.filter(pc.field("folded") == one) for one in (False, True))
    place = pc.index_in(item_keys(whole, _ROW_KEY), item_keys(folded, _ROW_KEY).combine_chunks())
    sizes = whole.drop_columns("folded").append_column("folded", folded["total"].take(place))
    rows = pa.concat_tables([sizes.slice(0, 0), *(sizes.filter(pc.field("contender") == p.name) for p in policies)])
    rows = with_baseline(rows, sizes.filter(pc.field("contender") == HEURISTIC), _KEY, FIGURES)
    return score_matrix(rows, _KEY, dict.fromkeys(FIGURES, 0.0), ATTRIBUTES)


def ship_references(shipped: pa.Table) -> list[Contender]:
    """Contenders beside the heuristic and the policies: other levels, and other ways to answer; in table order."""
    names = dict.fromkeys(shipped["contender"].to_pylist())
    return [one for one in map(Contender.named, names) if not one.is_policy and one.name != HEURISTIC]


def complete_programs(measured: ScoreMatrix) -> ScoreMatrix:
    """The same without sizes of programs that are not known in full, so that all figures are of the same programs."""
    known = np.all([np.isfinite(scores) for scores in measured.scores.values()], axis=0)
    return replace(measured, scores={name: np.where(known, one, np.nan) for name, one in measured.scores.items()})


def best_level(measured: ScoreMatrix) -> dict[str, np.ndarray] | None:
    """Sizes of each program at the level for size at which its total is smaller, float64 [num_items] by figure.

    The baseline is one of these levels unless both are among the contenders. None where the other was not measured.
    """
    there = [measured.index(level) for level in _SIZE_LEVELS if level in measured.references]
    if not there:
        return None
    ways = [{name: scores[number] for name, scores in measured.scores.items()} for number in there]
    if len(there) < len(_SIZE_LEVELS):
        ways.insert(0, dict(measured.baseline))
    totals = np.array([way["total"] for way in ways])
    best = np.argmin(np.where(np.isfinite(totals), totals, np.inf), axis=0)
    return {name: np.choose(best, [way[name] for way in ways]) for name in measured.measures}


def with_best_known(measured: ScoreMatrix, searched: str) -> ScoreMatrix:
    """The same with the smallest known total of each program, of the search and of all others; shares refer to it.

    Programs without the contender that searched have no best; nor has any where nothing was searched.
    """
    if searched not in measured.references:
        return measured
    totals, baseline = measured.scores["total"], measured.baseline["total"]
    least = np.fmin(np.fmin.reduce(totals, axis=0), baseline)
    known = np.isfinite(totals[measured.index(searched)])
    return replace(measured, best={"total": np.where(known, least, np.nan)})


def guarded(measured: ScoreMatrix) -> ScoreMatrix:
    """The same contenders with a guard: sizes of the heuristic's program where its total is not larger, or alone known.

    A build with the guard compiles twice. It never ships a larger program.
    """
    totals, baseline = measured.scores["total"], measured.baseline["total"]
    kept = totals < baseline
    return replace(
        measured, scores={name: np.where(kept, one, measured.baseline[name]) for name, one in measured.scores.items()}
    )


def program_rows(measured: ScoreMatrix) -> list[ComparisonRow]:
    """Compare each policy on each program; counts tell project, program, kind and modules."""
    return compare(measured, _one_by_one, POINTS_ONLY, count=_attributes, together=False)


def shipped_totals(measured: ScoreMatrix, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Compare policies, and learners over their seeds, over the programs of each split whose sizes are all known."""
    return compare(complete_programs(measured), parts(PROGRAMS), bootstrap)


def shares_by_part(measured: ScoreMatrix) -> list[ComparisonRow]:
    """Compare contenders, and `BEST`, over all programs, those of each language and of each project.

    Args:
        measured: as of `with_best_known`. Programs without a best known total do not count; without a search there are
            no rows.
    """
    best = measured.best.get("total")
    if best is None:
        return []
    known = np.isfinite(best)

    def scopes(scores: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
        yield PROGRAMS, known
        for language in LANGUAGES:
            yield language, known & measured.where(language=language)
        for project, items in measured.by_project(split):
            yield project, known & items

    every = measured.with_contender(BEST, {"total": best})
    return compare(every, scopes, POINTS_ONLY, together=False)


def ship_failures(shipped: pa.Table) -> list[Row]:
    """Rows of ``artifacts.SHIPPED_SIZES`` without sizes; of a program that fails both ways, the first."""
    failed = shipped.filter(pc.field("failure") != "")
    places = np.unique(item_keys(failed, _ROW_KEY).to_pylist(), return_index=True)[1]
    rows: list[Row] = failed.take(np.sort(places)).to_pylist()
    return rows


def _one_by_one(measured: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
    for number in np.flatnonzero(measured.where(split=split)).tolist():
        yield measured.keys[number], np.arange(len(measured.keys)) == number


def _attributes(measured: ScoreMatrix, members: Sequence[int], items: np.ndarray) -> RowView:
    (number,) = np.flatnonzero(items)
    return {name: measured.items[name][number] for name in ATTRIBUTES}
