"""The page about other languages and compilers: gains by what was learnt from and what was tested on."""

import argparse
from collections.abc import Sequence
from functools import partial

from mlgo.compare.measured import Row
from mlgo.report.pages import PLAIN, Column, Shown, Table, count_column, gain_column, text_column, verdict_columns
from mlgo.research.generalisation import Matrix, read_matrices, read_trainings

_PAGE = """\
# Generalisation

What policies of the learner `marginal` gain on languages and under compilers that they were not trained with, written
by `make generalisation` ([how it is made and how to read it](../generalisation.md)).

A cell: gain in {measure} of the {split} modules against `-Oz` of the compiler that tests, geometric mean by project and
over the seeds; positive is smaller code. In brackets its interval over projects and seeds. Below: projects that get
smaller : larger of all projects, and the verdict. P-values of a matrix are corrected together
([statistics](../statistics.md)).

{matrices}

## Trainings

{trainings}
"""


def show(args: argparse.Namespace) -> Shown:
    """A line for each cell; as a page, the matrices themselves and what the trainings asked for."""
    folder, measure = args.data / "generalisation", args.measure
    matrices = read_matrices(folder / "results.parquet", args.split, measure)
    columns = [
        text_column("trained", lambda row: row.name),
        text_column("tested", lambda row: row.scope),
        gain_column("gain (interval)", lambda row: row.by(measure).geomean),
        gain_column("in total", lambda row: row.by(measure).total),
        Column("projects smaller / larger / equal", lambda row, style: style.tally(row.by(measure).projects)),
        count_column("modules", lambda row: row.by(measure).num_compared),
        *verdict_columns(lambda row: row.by(measure)),
    ]
    text = "\n\n".join(f"{one.title}\n{Table(columns, one.rows).aligned()}" for one in matrices)
    record = [{"title": one.title, "cells": [cell for row in one.rows for cell in row.records()]} for one in matrices]
    page = ""
    if args.markdown:
        trainings = Table(
            [
                text_column("compiler", lambda one: one.compiler),
                text_column("train set", lambda one: one.train_set),
                text_column("languages", lambda one: ", ".join(one.languages)),
                text_column("seeds", lambda one: ", ".join(map(str, one.seeds))),
                count_column("evaluations of one training", lambda one: one.evaluations),
            ],
            read_trainings(folder),
        )
        squares = "\n\n".join(f"## {one.title}\n\n{_square(one, measure).markdown()}" for one in matrices)
        page = _PAGE.format(
            measure=f"`{measure}`", split=matrices[0].rows[0].split, matrices=squares, trainings=trainings.markdown()
        )
    return Shown(text, record, page)


def _square(matrix: Matrix, measure: str) -> Table:
    """A matrix as it is, each cell in two lines."""

    def cell(row: Row) -> str:
        one = row.by(measure)
        told = one.finding if one.corrected_p is None else f"{one.finding}, p = {PLAIN.probability(one.corrected_p)}"
        return (
            f"{PLAIN.gain(one.geomean)}<br>{one.projects.smaller} : {one.projects.larger} of {one.num_projects}, {told}"
        )

    def at(line: Sequence[Row], number: int) -> str:
        return cell(line[number])

    tested = [row.scope for row in matrix.lines[0]]
    return Table(
        [
            text_column("trained \\ tested", lambda line: line[0].name),
            *(text_column(name, partial(at, number=i)) for i, name in enumerate(tested)),
        ],
        matrix.lines,
    )
