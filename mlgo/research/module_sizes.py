"""Gains of small and of large modules, which show what a training never met."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.compare.inference import Bootstrap
from mlgo.compare.modules import policy_scores
from mlgo.compare.scores import ComparisonRow, ScoreMatrix, claims, compare, policies_on
from mlgo.objects import measures
from mlgo.report.headline_page import bootstrap_of
from mlgo.report.pages import Column, RenderedPage, Style, Table, count_column, table_page, text_column

BOUNDS = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Bytes of text under the heuristic, up to which a module belongs to a class; about equal steps of a logarithm."""

_CLASSED_BY = measures.DEFAULT.name


def compare_by_size(results: pa.Table, split: str | None, measure: str, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Each learner over its seeds against the heuristic, class by class; the class is the row's scope.

    Args:
        results: ``artifacts.RESULTS``.
        split: whose modules count; None for the one that is judged.
    """
    measured = policy_scores(results)
    judged = split or measured.judged
    policies = policies_on(measured, judged, measure)
    classes = list(_classes(policies_on(measured, judged, _CLASSED_BY)))
    return claims(compare(policies, lambda scores, part: classes, bootstrap, split=judged))


def _classes(measured: ScoreMatrix) -> Iterator[tuple[str, np.ndarray]]:
    """Titles with their items, bool [num_items]."""
    number = np.digitize(measured.baseline[_CLASSED_BY] - measures.DEFAULT.offset, BOUNDS, right=True)
    yield f"up to {BOUNDS[0]:,}", number == 0
    for i, (low, high) in enumerate(pairwise(BOUNDS), 1):
        yield f"{low + 1:,} to {high:,}", number == i
    yield f"over {BOUNDS[-1]:,}", number == len(BOUNDS)


_NOTE = (
    "Gains of objects over the heuristic in total, all seeds together, by the bytes of text that a module has under "
    "the heuristic. Intervals resample projects and seeds. A learner whose training or validation leaves out large "
    "modules can gain on small ones alone."
)


def show(args: argparse.Namespace) -> RenderedPage:
    """The table; the same as Markdown."""
    results = read_table(args.data / "evaluation" / "results.parquet", RESULTS)
    rows = compare_by_size(results, args.split, args.measure, bootstrap_of(args.preset))
    return table_page(size_table(rows), _NOTE, [record for row in rows for record in row.records()])


def size_page(rows: Sequence[ComparisonRow]) -> str:
    """Note and table as Markdown, for a place in another page."""
    return f"{_NOTE}\n\n{size_table(rows).markdown()}"


def size_table(rows: Sequence[ComparisonRow]) -> Table:
    """A line for each class of modules, a column for each learner."""
    measure = next(iter(rows[0].comparisons))

    def cell(cells: dict[str, ComparisonRow], style: Style, learner: str) -> str:
        return style.gain(cells[learner].by(measure).total) if learner in cells else ""

    return Table(
        [
            text_column("bytes", lambda cells: next(iter(cells.values())).scope),
            count_column("modules", lambda cells: max(row.by(measure).num_compared for row in cells.values())),
            *(
                Column(name, partial(cell, learner=name))
                for name in dict.fromkeys(row.contender.learner for row in rows)
            ),
        ],
        [{row.contender.learner: row for row in found} for _, found in groupby(rows, lambda row: row.scope)],
    )
