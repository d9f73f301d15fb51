"""Gains of learners by what they depend on: compiles that trainings have spent, and sizes of modules."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.base.files import write_text
from mlgo.base.names import PolicyName
from mlgo.compare.inference import Bootstrap
from mlgo.compare.modules import policy_scores
from mlgo.compare.scores import ComparisonRow, ScoreMatrix, claims, compare, policies_on
from mlgo.compare.trainings import BUDGETS, BudgetCurve, Curve, budget_curves, read_curves, with_minutes
from mlgo.errors import ArtifactError
from mlgo.objects import measures
from mlgo.report.headline_page import bootstrap_of
from mlgo.report.pages import Column, RenderedPage, Style, Table, count_column, render, table_page, text_column
from mlgo.report.training import budgets

BUDGET_NOTE = (
    "Reward of the best policy that a training has found within so many compiles, or 5 % more, validations included, "
    "or so many minutes of one core, at the mean pace of the training: median over the seeds, worst and best seed in "
    "parentheses. It is measured on the validation modules that also choose the policy, so it says how fast a learner "
    "is, not what it gains."
)
SIZE_NOTE = (
    "Gains of objects over the heuristic in total, all seeds together, by the bytes of text that a module has under "
    "the heuristic. Intervals resample projects and seeds. A learner whose training or validation leaves out large "
    "modules can gain on small ones alone."
)

_UNITS = {"evaluations": "compiles", "minutes": "minutes"}

BOUNDS = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Bytes of text under the heuristic, up to which a module belongs to a class; about equal steps of a logarithm."""


def show_budgets(args: argparse.Namespace) -> RenderedPage:
    """The table of all trainings in ``policies/``; the same as Markdown, and as a page with figures."""
    folder = args.data / "policies"
    names = sorted(path.parent.name for path in folder.glob("*/history.csv") if PolicyName.find(path.parent.name))
    curves = with_minutes(read_curves(folder, names), args.data / "work")
    found = _by_learner(curves)
    if not found:
        raise ArtifactError(f"{folder} holds no training that compiles; run: snakemake --cores all train")
    table = budget_table(curves)
    if args.html:
        figures = {f"gain-against-{spent}": budgets(curves, spent) for spent in BUDGETS}
        write_text(args.html, render("budgets.html.jinja", budgets=table, note=BUDGET_NOTE, figures=figures))
    records = []
    for learner, by_spent in found.items():
        gains = {
            spent: {
                budget: None if (some := one.within(budget)) is None else some.tolist() for budget in BUDGETS[spent]
            }
            for spent, one in by_spent.items()
        }
        seeds = by_spent["evaluations"].seeds
        records.append({"learner": learner, "seeds": seeds, "gains": gains.pop("evaluations"), "gains_by": gains})
    return table_page(table, BUDGET_NOTE, records)


def _by_learner(curves: Sequence[Curve]) -> dict[str, dict[str, BudgetCurve]]:
    """Progress by learner and by what it is set against, see `BUDGETS`."""
    found: dict[str, dict[str, BudgetCurve]] = {}
    for spent in BUDGETS:
        for one in budget_curves(curves, spent):
            found.setdefault(one.learner, {})[spent] = one
    return found


def budget_table(curves: Sequence[Curve]) -> Table:
    """Gains by learner; budgets that no training comes near are left out."""
    found = _by_learner(curves)

    def within(learner: str, spent: str, budget: int) -> np.ndarray | None:
        return found[learner][spent].within(budget) if spent in found[learner] else None

    def cell(learner: str, style: Style, spent: str, budget: int) -> str:
        if (gains := within(learner, spent, budget)) is None:
            return ""
        return f"{100 * np.median(gains):+.2f} % ({100 * gains.min():+.2f} to {100 * gains.max():+.2f})"

    return Table(
        [
            text_column("learner", str),
            count_column("seeds", lambda learner: len(found[learner]["evaluations"].seeds)),
            *(
                Column(f"{budget:,} {_UNITS[spent]}", partial(cell, spent=spent, budget=budget))
                for spent, some in BUDGETS.items()
                for budget in some
                if any(within(learner, spent, budget) is not None for learner in found)
            ),
        ],
        list(found),
    )


def show_sizes(args: argparse.Namespace) -> RenderedPage:
    """The table by size of module; the same as Markdown."""
    results = read_table(args.data / "evaluation" / "results.parquet", RESULTS)
    rows = compare_by_size(results, args.split, args.measure, bootstrap_of(args.preset))
    return table_page(size_table(rows), SIZE_NOTE, [record for row in rows for record in row.records()])


def compare_by_size(results: pa.Table, split: str | None, measure: str, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Each learner over its seeds against the heuristic, class by class; the class is the row's scope."""
    measured = policy_scores(results)
    judged = split or measured.judged
    policies = policies_on(measured, judged, measure)
    classes = list(_classes(policies_on(measured, judged, measures.DEFAULT.name)))
    return claims(compare(policies, lambda scores, part: classes, bootstrap, split=judged))


def _classes(measured: ScoreMatrix) -> Iterator[tuple[str, np.ndarray]]:
    """Titles with their items, bool [num_items]."""
    number = np.digitize(measured.baseline[measures.DEFAULT.name] - measures.DEFAULT.offset, BOUNDS, right=True)
    between = [f"{low + 1:,} to {high:,}" for low, high in pairwise(BOUNDS)]
    for i, title in enumerate([f"up to {BOUNDS[0]:,}", *between, f"over {BOUNDS[-1]:,}"]):
        yield title, number == i


def size_table(rows: Sequence[ComparisonRow]) -> Table:
    """A line for each class of modules, a column for each learner."""

    def cell(cells: dict[str, ComparisonRow], style: Style, learner: str) -> str:
        return style.gain(cells[learner].only.total) if learner in cells else ""

    return Table(
        [
            text_column("bytes", lambda cells: next(iter(cells.values())).scope),
            count_column("modules", lambda cells: max(row.only.num_compared for row in cells.values())),
            *(Column(name, partial(cell, learner=name)) for name in dict.fromkeys(r.contender.learner for r in rows)),
        ],
        [{row.contender.learner: row for row in found} for _, found in groupby(rows, lambda row: row.scope)],
    )
