"""The page of small and large modules: what each learner gains on them."""

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.compare.measured import Row
from mlgo.report.pages import Column, Shown, Style, Table, count_column, text_column
from mlgo.report.truth import bootstrap_of
from mlgo.research.sizes import compare_by_size

_NOTE = (
    "Gains of objects over the heuristic in total, all seeds together, by the bytes of text that a module has under "
    "the heuristic. Intervals resample projects and seeds. A learner whose training or validation leaves out large "
    "modules can gain on small ones alone."
)


def show(args: argparse.Namespace) -> Shown:
    """The table; the same as Markdown."""
    results = read_table(args.data / "evaluation" / "results.parquet", RESULTS)
    rows = compare_by_size(results, args.split, args.measure, bootstrap_of(args.preset))
    table = size_table(rows)
    return Shown(
        f"{table.aligned()}\n\n{_NOTE}",
        [record for row in rows for record in row.records()],
        f"{table.markdown()}\n\n{_NOTE}\n",
    )


def size_page(rows: Sequence[Row]) -> str:
    """Note and table as Markdown, for a place in another page."""
    return f"{_NOTE}\n\n{size_table(rows).markdown()}"


def size_table(rows: Sequence[Row]) -> Table:
    """A line for each class of modules, a column for each learner."""
    measure = next(iter(rows[0].comparisons))
    return Table(
        [
            text_column("bytes", lambda cells: next(iter(cells.values())).scope),
            count_column("modules", lambda cells: max(row.by(measure).num_compared for row in cells.values())),
            *(
                Column(name, partial(_cell, learner=name, measure=measure))
                for name in dict.fromkeys(row.contender.learner for row in rows)
            ),
        ],
        [{row.contender.learner: row for row in found} for _, found in groupby(rows, lambda row: row.scope)],
    )


def _cell(cells: dict[str, Row], style: Style, learner: str, measure: str) -> str:
    return style.gain(cells[learner].by(measure).total) if learner in cells else ""
