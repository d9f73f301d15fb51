"""The page about programs that ran: what policies change, and whether the compiler's costs tell."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from mlgo.compare.executed import FIGURES, PAIRS, Programs, RankCorrelation, change, find_programs, read_programs
from mlgo.compare.scores import ComparisonRow
from mlgo.report.pages import Column, RenderedPage, Style, Table, count_column, gain_column, text_column

_PAGE = """\
# Programs

What policies change when programs run, written by `mlgo report programs --markdown`.

## All programs

Gain over the heuristic, geometric mean; positive is less.

{all}

## Does spill cost tell what is executed?

Spearman's rank correlation over the contenders of a program.

{ranks}

## Program by program

Gain over the heuristic.

{single}
"""


def program_table(rows: Sequence[ComparisonRow]) -> Table:
    """Gains of contenders in what programs execute."""

    def gain(row: ComparisonRow, figure: str) -> float | None:
        changed = change(row, figure)
        return None if changed is None else 0.0 - changed

    return Table(
        [
            text_column("program", lambda row: row.scope),
            text_column("policy or advisor", lambda row: row.name),
            *(gain_column(f"gain, {title}", partial(gain, figure=name)) for name, title in FIGURES.items()),
        ],
        rows,
    )


def rank_table(
    correlations: Sequence[RankCorrelation],
    pairs: Sequence[tuple[str, str]],
    titles: dict[str, str],
    heads: tuple[str, str],
) -> Table:
    """Rank correlations of pairs of figures."""
    return Table(
        [
            text_column(heads[0], lambda one: one.scope),
            count_column(heads[1], lambda one: one.number),
            *(Column(f"{titles[first]} and {titles[second]}", _rank((first, second))) for first, second in pairs),
        ],
        correlations,
    )


def _rank(pair: tuple[str, str]) -> Callable[[RankCorrelation, Style], str]:
    return lambda one, style: style.rank(one.by_pair[pair])


def cost_ranks(programs: Programs) -> Table:
    """Do the costs rank ways of compiling as what is executed does?"""
    return rank_table(programs.correlations, PAIRS, FIGURES, ("program", "contenders"))


def show(args: argparse.Namespace) -> RenderedPage:
    """Changes and rank correlations."""
    found = read_programs(find_programs(args.data))
    together, ranks = program_table(found.changes(together=True)), cost_ranks(found)
    text = [
        "Gain over the heuristic, geometric mean over the programs; positive is less.",
        together.aligned(),
        "Rank correlation (Spearman) over the contenders of a program:",
        ranks.aligned(),
        *(f"{program} under {contender}: {reason}" for program, contender, reason in found.wrong),
    ]
    record = {
        "comparisons": [record for row in found.rows for record in row.records()],
        "rank_correlations": [
            {
                "program": one.scope,
                "contenders": one.number,
                **{f"{a}_{b}": rank for (a, b), rank in one.by_pair.items()},
            }
            for one in found.correlations
        ],
        "wrong": found.wrong,
    }
    single = program_table(found.changes(together=False))
    page = _PAGE.format(all=together.markdown(), ranks=ranks.markdown(), single=single.markdown())
    return RenderedPage("\n\n".join(text), record, page, not found.wrong)
