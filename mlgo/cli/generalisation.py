"""`mlgo generalisation`: what policies gain on other languages and under other compilers."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mlgo.cli.options import add_table_options
from mlgo.cli.tables import aligned, markdown
from mlgo.core.files import write_text
from mlgo.report.compare import verdict
from mlgo.report.generalisation import Cell, Matrix, Training, read_matrices, read_trainings

_EPILOG = """\
examples:
  make generalisation                     train and test all policies, then write the page (hours on few cores)
  mlgo generalisation                     the tables of the finished run
  mlgo generalisation --measure exec_bytes --json
  mlgo generalisation --markdown docs/results/generalisation.md
"""

_PAGE = """\
# Generalisation

What policies of the learner `marginal` gain on languages and under compilers that they were not trained with, written
by `make generalisation` ([how it is made and how to read it](../generalisation.md)).

A cell: gain in {measure} of the {split} modules against `-Oz` of the compiler that tests, in percent, geometric mean,
averaged over the seeds; positive is smaller code. In brackets its interval, a bootstrap over modules and seeds. Below:
modules that get smaller : larger of all modules, and the p-value of the exact sign test.

{matrices}

## Trainings

{trainings}
"""

_COLUMNS = ("trained", "tested", "gain % (interval)", "smaller : larger", "modules", "sign test p")
_TRAINING_COLUMNS = ("compiler", "train set", "languages", "seeds", "evaluations of one training")


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "generalisation",
        help="what policies gain on other languages and under other compilers",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_table_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    folder = args.data / "generalisation"
    matrices = read_matrices(folder / "results.parquet", args.split, args.measure)
    if args.markdown:
        trainings = read_trainings(folder)
        write_text(args.markdown, markdown_page(matrices, trainings, args.split, args.measure))
    print(json.dumps([_record(one) for one in matrices], indent=2) if args.json else plain_tables(matrices))


def plain_tables(matrices: Sequence[Matrix]) -> str:
    """All tables for a terminal: a line per cell, columns aligned."""
    return "\n\n".join(
        f"{one.title}\n{aligned([_COLUMNS, *([c.trained, c.tested, *_figures(c)] for row in one.cells for c in row)])}"
        for one in matrices
    )


def markdown_page(matrices: Sequence[Matrix], trainings: Sequence[Training], split: str, measure: str) -> str:
    """The page with all tables and what the trainings cost."""
    rows = [
        [
            one.compiler,
            one.train_set,
            ", ".join(one.languages),
            ", ".join(map(str, one.seeds)),
            f"{one.evaluations:,.0f}",
        ]
        for one in trainings
    ]
    return _PAGE.format(
        measure=f"`{measure}`",
        split=split,
        matrices="\n\n".join(f"## {one.title}\n\n{markdown(_square(one))}" for one in matrices),
        trainings=markdown([list(_TRAINING_COLUMNS), *rows]),
    )


def _square(matrix: Matrix) -> list[list[str]]:
    """Rows of a matrix as it is, each cell in two lines."""
    head = ["trained \\ tested", *(cell.tested for cell in matrix.cells[0])]
    return [head, *([row[0].trained, *map(_two_lines, row)] for row in matrix.cells)]


def _two_lines(cell: Cell) -> str:
    gain, counts, num_modules, p = _figures(cell)
    return f"{gain}<br>{counts} of {num_modules}, p = {p}"


def _figures(cell: Cell) -> list[str]:
    one = cell.comparison
    gain = "-" if one.geomean is None else f"{100 * one.geomean:+.2f}"
    ends = [f"{100 * end:+.2f}" for end in (one.geomean_low, one.geomean_high) if end is not None]
    interval = f" ({' to '.join(ends)})" if ends else ""
    p = "-" if one.sign_p is None else f"{one.sign_p:.2g}"
    return [f"{gain}{interval}", f"{one.wins} : {one.losses}", str(one.num_modules), p]


def _record(matrix: Matrix) -> dict[str, Any]:
    cells = [
        {**asdict(cell), "sign_p": cell.comparison.sign_p, "verdict": verdict(cell.comparison)}
        for row in matrix.cells
        for cell in row
    ]
    return {"title": matrix.title, "cells": cells}
