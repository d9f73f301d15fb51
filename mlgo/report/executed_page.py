"""The page about programs that ran: what policies change, and whether the compiler's costs tell."""

import argparse
from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from mlgo.base.artifacts import RowView
from mlgo.compare.programs import EXECUTED, PAIRS, Programs, executed_gain, find_programs, read_programs
from mlgo.compare.scores import ALL, ComparisonRow
from mlgo.report.pages import Column, RenderedPage, Style, Table, count_column, gain_column, render, text_column


def program_table(rows: Sequence[ComparisonRow]) -> Table:
    """Gains of contenders in what programs execute."""
    return Table(
        [
            text_column("program", lambda row: row.scope),
            text_column("policy or advisor", lambda row: row.name),
            *(gain_column(f"gain, {title}", partial(executed_gain, figure=name)) for name, title in EXECUTED.items()),
        ],
        rows,
    )


def executed_tables(programs: Programs) -> dict[str, Table]:
    """Changes of all programs and of each; do the costs rank ways of compiling as what is executed does?"""
    ranks = [
        text_column("program", itemgetter("program")),
        count_column("contenders", itemgetter("contenders")),
        *(Column(f"{EXECUTED[a]} and {EXECUTED[b]}", partial(_rank, pair=pair)) for pair, (a, b) in PAIRS.items()),
    ]
    return {
        "together": program_table([row for row in programs.rows if row.scope == ALL]),
        "single": program_table([row for row in programs.rows if row.scope != ALL]),
        "ranks": Table(ranks, programs.correlations),
    }


def _rank(one: RowView, style: Style, pair: str) -> str:
    return style.rank(one[pair])


def show(args: argparse.Namespace) -> RenderedPage:
    """Changes and rank correlations."""
    found = read_programs(find_programs(args.data))
    tables = executed_tables(found)
    text = [
        "Gain over the heuristic, geometric mean over the programs; positive is less.",
        tables["together"].aligned(),
        "Rank correlation (Spearman) over the contenders of a program:",
        tables["ranks"].aligned(),
        *(f"{program} under {contender}: {reason}" for program, contender, reason in found.wrong),
    ]
    record = {
        "comparisons": [record for row in found.rows for record in row.records()],
        "rank_correlations": found.correlations,
        "wrong": found.wrong,
    }
    page = render("programs.md.jinja", None, **tables)
    return RenderedPage("\n\n".join(text), record, page, not found.wrong)
